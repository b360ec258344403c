import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

// the file is in the repository and always has the same name, so its compiled form is kept
const directory = fileURLToPath(new URL('../build/loader-test', import.meta.url));
const keptFolder = fileURLToPath(new URL('../build/typescript', import.meta.url));
beforeAll(() => void mkdirSync(directory, { recursive: true }));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const loader = new URL('./typescript-loader.mjs', import.meta.url).href;
const write = (name, text) => writeFileSync(join(directory, name), text);
const run = (name) =>
  spawnSync(process.execPath, ['--import', loader, join(directory, name)], { encoding: 'utf8' });

describe('the TypeScript loader', () => {
  it('finds sources under the names of their builds, and JavaScript next to them', () => {
    write(
      'main.ts',
      "import { a } from './a.js';\nimport { b } from './b.js';\nconsole.log((a as number) + b);\n",
    );
    write('a.ts', 'export const a: number = 1;\n');
    write('b.js', 'export const b = 2;\n');
    write('package.json', '{ "type": "module" }');
    expect(run('main.ts')).toMatchObject({ stdout: '3\n', stderr: '', status: 0 });
  });

  it('sees every change of a file that it has compiled before', () => {
    for (const value of [1, 2, 1]) {
      write('changed.ts', `const value: number = ${value};\nconsole.log(value);\n`);
      expect(run('changed.ts').stdout).toBe(`${value}\n`);
      expect(run('changed.ts').stdout).toBe(`${value}\n`);
    }
  });

  it('keeps what it has compiled of the repository, and of no other folder', () => {
    const listKept = (name) => readdirSync(keptFolder).filter((file) => file.startsWith(`${name}-`));
    const elsewhere = mkdtempSync(join(tmpdir(), 'mtl-loader-'));
    const name = `${basename(elsewhere)}.ts`;
    writeFileSync(join(elsewhere, name), 'console.log("elsewhere" as string);\n');
    const { stdout } = spawnSync(process.execPath, ['--import', loader, join(elsewhere, name)], {
      encoding: 'utf8',
    });
    rmSync(elsewhere, { recursive: true });
    expect(stdout).toBe('elsewhere\n');
    expect(listKept(name)).toEqual([]);
    write('kept.ts', 'console.log(1 as number);\n');
    run('kept.ts');
    expect(listKept('kept.ts')).toHaveLength(1);
  });

  it('compiles what Node does not know yet, and errors name lines of the source', () => {
    const lines = [
      'interface Closed { close(): void }',
      '',
      'const one: Disposable & Closed = { close() {}, [Symbol.dispose]() { console.log("gone"); } };',
      '{',
      '  using held = one;',
      '  held.close();',
      '}',
      "throw new Error('here') as Error;",
    ];
    write('using.ts', `${lines.join('\n')}\n`);
    const { stdout, stderr, status } = run('using.ts');
    expect({ stdout, status }).toEqual({ stdout: 'gone\n', status: 1 });
    expect(stderr).toContain('using.ts:8');
  });

  it('says where a file is no TypeScript', () => {
    write('wrong.ts', 'const one: number = 1;\nconst = 2;\n');
    expect(run('wrong.ts')).toMatchObject({ status: 1, stderr: expect.stringMatching(/wrong\.ts:2:6/) });
  });
});

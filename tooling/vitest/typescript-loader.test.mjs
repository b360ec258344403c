import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let directory;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-loader-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const loader = new URL('./typescript-loader.mjs', import.meta.url).href;
const write = (name, text) => writeFileSync(join(directory, name), text);
const run = (name) =>
  spawnSync(process.execPath, ['--import', loader, join(directory, name)], { encoding: 'utf8' });

describe('the TypeScript loader', () => {
  it('finds sources under the names of their builds, and JavaScript beside them', () => {
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

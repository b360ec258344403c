import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { buildPackages } from './build-packages.mjs';

const { path: root, write, remove } = testFolder('build-packages');
afterAll(remove);

const run = promisify(execFile);
const build = () => buildPackages({ root, stamps: join(root, 'tooling/build/packages.json') });
const readOutput = (folder) => readFileSync(join(root, folder, 'dist/index.js'), 'utf8');

function writePackage(folder, manifest, source) {
  const exports = { '.': { '@mtl/source': './src/index.ts' } };
  write(`${folder}/package.json`, JSON.stringify({ type: 'module', exports, ...manifest }));
  write(`${folder}/src/index.ts`, source);
}

beforeAll(() => {
  symlinkSync(join(import.meta.dirname, '../node_modules'), join(root, 'node_modules'));
  write('pnpm-lock.yaml', 'lock');
  write('tsconfig.json', '{ "compilerOptions": { "module": "nodenext" } }');
  for (const folder of ['native', 'tsup']) write(`tooling/${folder}/file`, folder);
  writePackage(
    'apps/top',
    { name: 'top', dependencies: { upper: 'workspace:*' } },
    'export const top = 1;\n',
  );
  // in alphabetical order of the folders, the upper package would come first
  writePackage('packages/a', { name: 'upper', devDependencies: { lower: '1' } }, 'export const a = 1;\n');
  writePackage('packages/b', { name: 'lower' }, 'export const b: number = 1;\n');
  writePackage('packages/c', { name: 'other' }, 'export const c = 1;\n');
  write('packages/d/package.json', '{ "name": "not-built-by-tsup" }');
});

it('builds lower packages first, and nothing that is built', async () => {
  expect(await build()).toEqual(['lower', 'upper', 'other', 'top']);
  expect(readOutput('packages/b')).toContain('var b = 1');
  expect(existsSync(join(root, 'packages/b/dist/index.d.ts'))).toBe(false);
  expect(await build()).toEqual([]);
});

it('builds what changed again, and what is above it', async () => {
  write('packages/b/src/index.ts', 'export const b = 2;\n');
  expect(await build()).toEqual(['lower', 'upper', 'top']);
  expect(readOutput('packages/b')).toContain('var b = 2');
  write('packages/b/test/index.test.ts', 'not read by a build');
  write('packages/b/.turbo/turbo-test.log', 'what turbo writes of each task');
  expect(await build()).toEqual([]);
  write('tooling/tsup/file', 'changed');
  expect(await build()).toHaveLength(4);
  write('tsconfig.json', '{ "compilerOptions": { "module": "nodenext", "strict": true } }');
  expect(await build()).toHaveLength(4);
});

it('builds again what another program wrote to dist, but leaves declarations alone', async () => {
  write('packages/c/dist/index.d.ts', 'export declare const c = 1;');
  expect(await build()).toEqual([]);
  write('packages/c/dist/index.js', 'of other sources');
  expect(await build()).toEqual(['other']);
  expect(readOutput('packages/c')).toContain('var c = 1');
});

it('names the package that does not build, and builds it when it does', async () => {
  write('packages/a/src/index.ts', 'export const a = ;\n');
  await expect(build()).rejects.toThrow(/^upper: Build failed with 1 error/);
  write('packages/a/src/index.ts', 'export const a = 3;\n');
  expect(await build()).toEqual(['upper', 'top']);
  expect(readOutput('packages/a')).toContain('var a = 3');
});

it(
  'never breaks a command that runs meanwhile',
  { tags: ['whole'] },
  async () => {
    const sources = (number) => {
      write('packages/c/src/large.ts', `export const large = '${String(number).repeat(1_000_000)}';\n`);
      write(
        'packages/c/src/other.ts',
        `import { large } from './large';\nexport const size = large.length;\n`,
      );
      write('packages/c/src/index.ts', `import { large } from './large';\nexport const first = large[0];\n`);
    };
    const config = `import { library } from ${JSON.stringify(join(import.meta.dirname, 'preset.mjs'))};`;
    write(
      'packages/c/tsup.config.ts',
      `${config}\nexport default library(['src/index.ts', 'src/other.ts']);\n`,
    );
    sources(0);
    await build();
    // a program that imports one file immediately and the other file later; the test runs it repeatedly
    const entry = (name) => JSON.stringify(join(root, 'packages/c/dist', `${name}.js`));
    write(
      'use.mjs',
      `const { first } = await import(${entry('index')});
await new Promise((resolve) => setTimeout(resolve, 20));
const { size } = await import(${entry('other')});
if (!/^\\d$/.test(first) || size !== 1_000_000) throw new Error(first + size);
`,
    );
    let isOver = false;
    const failures = [];
    let numRuns = 0;
    const loop = async () => {
      while (!isOver) {
        await run(process.execPath, [join(root, 'use.mjs')]).catch((error) => failures.push(error.message));
        numRuns += 1;
      }
    };
    const loops = [loop(), loop()];
    for (let number = 1; number < 8; number++) {
      sources(number);
      expect(await build()).toEqual(['other']);
    }
    isOver = true;
    await Promise.all(loops);
    expect(failures).toEqual([]);
    expect(numRuns).toBeGreaterThan(3);
    // A file that builds no longer make is deleted after an hour.
    const chunks = () =>
      readdirSync(join(root, 'packages/c/dist')).filter((file) => /^chunk-.*js$/.test(file));
    expect(chunks().length).toBeGreaterThan(1);
    const stamps = join(root, 'tooling/build/packages.json');
    const written = JSON.parse(readFileSync(stamps, 'utf8'));
    for (const path of Object.keys(written.other.superseded)) written.other.superseded[path] -= 3_700_000;
    writeFileSync(stamps, JSON.stringify(written));
    write('packages/c/src/index.ts', 'export const e = 1;\n');
    await build();
    expect(chunks().length).toBeLessThanOrEqual(1);
  },
  120_000,
);

it('builds declarations on request, and again when they are gone', { tags: ['whole'] }, async () => {
  const stamps = join(root, 'tooling/build/packages.json');
  const buildTypes = () => buildPackages({ root, stamps, declarations: true });
  for (const folder of ['apps/top', 'packages/a', 'packages/b'])
    rmSync(join(root, folder), { recursive: true });
  rmSync(join(root, 'packages/c/tsup.config.ts'), { force: true });
  write('packages/c/src/index.ts', 'export const c = 1;\n');
  const declaration = join(root, 'packages/c/dist/index.d.ts');
  expect(await buildTypes()).toEqual(['other']);
  expect(readFileSync(declaration, 'utf8')).toContain('const c = 1');
  expect(await buildTypes()).toEqual([]);
  expect(await build()).toEqual([]); // code without types is less
  rmSync(declaration);
  expect(await buildTypes()).toEqual(['other']);
  // once made, they fit the sources
  write('packages/c/src/index.ts', 'export const d = 1;\n');
  expect(await build()).toEqual(['other']);
  expect(readFileSync(declaration, 'utf8')).toContain('const d = 1');
  // first, a declaration refers to a type that the package's users do not install; then to a type that
  // programs must request
  write(
    'packages/c/src/index.ts',
    "import type { Plugin } from 'vite';\nexport declare const plugin: Plugin;\n",
  );
  await expect(buildTypes()).rejects.toThrow(
    /index\.d\.ts names a type of vite, which is no dependency of other/,
  );
  write('packages/c/src/index.ts', 'export declare const bytes: Buffer;\n');
  await buildTypes();
  expect(readFileSync(declaration, 'utf8')).toContain('/// <reference types="node" />');
});

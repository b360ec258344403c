import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { buildPackages } from './build-packages.mjs';

const { path: root, write, remove } = testFolder('build-packages');
afterAll(remove);

const build = () => buildPackages({ root, stamps: join(root, 'tooling/build/packages.json') });
const outputOf = (folder) => readFileSync(join(root, folder, 'dist/index.js'), 'utf8');

function writePackage(folder, manifest, source) {
  const config = `import { library } from ${JSON.stringify(join(import.meta.dirname, 'preset.mjs'))};`;
  write(`${folder}/package.json`, JSON.stringify({ type: 'module', ...manifest }));
  write(`${folder}/tsup.config.ts`, `${config}\nexport default library();\n`);
  write(`${folder}/src/index.ts`, source);
}

beforeAll(() => {
  symlinkSync(join(import.meta.dirname, '../node_modules'), join(root, 'node_modules'));
  write('pnpm-lock.yaml', 'lock');
  for (const folder of ['native', 'tsup', 'tsconfig']) write(`tooling/${folder}/file`, folder);
  writePackage(
    'apps/top',
    { name: 'top', dependencies: { upper: 'workspace:*' } },
    'export const top = 1;\n',
  );
  // in the order of names, the upper package comes first
  writePackage('packages/a', { name: 'upper', devDependencies: { lower: '1' } }, 'export const a = 1;\n');
  writePackage('packages/b', { name: 'lower' }, 'export const b: number = 1;\n');
  writePackage('packages/c', { name: 'other' }, 'export const c = 1;\n');
  write('packages/d/package.json', '{ "name": "not-built-by-tsup" }');
});

it('builds lower packages first, and nothing that is built', async () => {
  expect(await build()).toEqual(['lower', 'upper', 'other', 'top']);
  expect(outputOf('packages/b')).toContain('var b = 1');
  expect(existsSync(join(root, 'packages/b/dist/index.d.ts'))).toBe(false);
  expect(await build()).toEqual([]);
});

it('builds what changed again, and what is above it', async () => {
  write('packages/b/src/index.ts', 'export const b = 2;\n');
  expect(await build()).toEqual(['lower', 'upper', 'top']);
  expect(outputOf('packages/b')).toContain('var b = 2');
  write('packages/b/test/index.test.ts', 'not read by a build');
  expect(await build()).toEqual([]);
  write('tooling/tsup/file', 'changed');
  expect(await build()).toHaveLength(4);
});

it('builds again what another program wrote to dist, but leaves declarations alone', async () => {
  write('packages/c/dist/index.d.ts', 'export declare const c = 1;');
  expect(await build()).toEqual([]);
  write('packages/c/dist/index.js', 'of other sources');
  expect(await build()).toEqual(['other']);
  expect(outputOf('packages/c')).toContain('var c = 1');
});

it('names the package that does not build, and builds it when it does', async () => {
  write('packages/a/src/index.ts', 'export const a = ;\n');
  await expect(build()).rejects.toThrow(/^upper: Build failed with 1 error/);
  write('packages/a/src/index.ts', 'export const a = 3;\n');
  expect(await build()).toEqual(['upper', 'top']);
  expect(outputOf('packages/a')).toContain('var a = 3');
});

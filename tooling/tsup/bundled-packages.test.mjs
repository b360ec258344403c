import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { addLicenses, ownUrls } from './bundled-packages.mjs';

const { path: root, write, remove } = testFolder('bundled-packages');
const before = process.cwd();
const program = join(root, 'packages/program');
afterAll(() => {
  process.chdir(before);
  remove();
});

const bundle = () =>
  build({
    entryPoints: ['src/main.ts'],
    outdir: 'dist',
    bundle: true,
    format: 'esm',
    metafile: true,
    absWorkingDir: program,
    logLevel: 'silent',
    plugins: [ownUrls(), addLicenses(join(program, 'dist'))],
  });

beforeAll(() => {
  write('packages/lower/src/index.ts', 'export const lower: string = import.meta.url;\n');
  write(
    'packages/program/src/main.ts',
    "import { third } from 'third';\nimport { lower } from '../../lower/src/index.js';\nconsole.log(third, lower, import.meta.url);\n",
  );
  write('node_modules/third/package.json', '{ "name": "@by/third", "type": "module", "main": "index.js" }');
  write('node_modules/third/index.js', 'export const third = 3;\n');
  write('node_modules/third/LICENSE', 'Do as you like.\n');
  process.chdir(program);
});

it('finds the files of a bundled package where that package is installed, and its own next to it', async () => {
  await bundle();
  const text = readFileSync(join(program, 'dist/main.js'), 'utf8');
  expect(text).toContain('lower = new URL("./bundled.js", import.meta.resolve("@mtl/lower")).href');
  expect(text).toContain('lower, import.meta.url)');
});

it('has the licences of the third parties that it contains, and is not built without one', async () => {
  await bundle();
  expect(readFileSync(join(program, 'dist/LICENSE-@by-third.txt'), 'utf8')).toBe('Do as you like.\n');
  rmSync(join(root, 'node_modules/third/LICENSE'));
  await expect(bundle()).rejects.toThrow(/@by\/third is bundled and has no licence/);
});

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';

// in the repository, where packages are found
const folder = fileURLToPath(new URL('../build/threads-test', import.meta.url));
const source = pathToFileURL(join(folder, 'test', 'ranks', 'greet.ts'));
beforeAll(() => {
  mkdirSync(join(folder, 'test', 'ranks'), { recursive: true });
  mkdirSync(join(folder, 'src'));
  writeFileSync(join(folder, 'src', 'name.ts'), "export const name: string = 'a rank';\n");
  writeFileSync(
    source,
    "import { name } from '../../src/name.js';\nimport { version } from 'esbuild';\nexport default () => [name, version.length > 0];\n",
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => vi.unstubAllEnvs());

async function load(builds) {
  vi.resetModules();
  vi.stubEnv('MTL_TEST_BUILDS', builds);
  return await import('./typescript-threads.mjs');
}

it('runs ranks on their sources, with the loader, where tests do', async () => {
  const { rankModule, rankThreads, typescriptThreads } = await load(undefined);
  expect(rankModule(source)).toBe(source);
  expect(rankThreads(source)).toEqual({ ...typescriptThreads, module: source });
});

it('compiles ranks into a file of their package, without its dependencies, where tests run on builds', async () => {
  const { rankThreads } = await load('1');
  const { module, preload } = rankThreads(source);
  expect(preload).toBeUndefined();
  expect(fileURLToPath(module)).toBe(join(folder, 'build', 'greet.mjs'));
  expect(existsSync(module)).toBe(true);
  const text = readFileSync(module, 'utf8');
  expect(text).toContain('from "esbuild"');
  expect((await import(module.href)).default()).toEqual(['a rank', true]);
  // once for all tests of a file
  expect(rankThreads(source).module).toBe(module);
});

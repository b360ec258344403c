import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, expect, it, vi } from 'vitest';
import { setupFiles } from './setup-files.mjs';

const packages = fileURLToPath(new URL('../../packages', import.meta.url));
const own = fileURLToPath(new URL('./seeded-properties.mjs', import.meta.url));

afterEach(() => {
  vi.unstubAllEnvs();
  vi.resetModules();
  fc.resetConfigureGlobal();
});

/** Lists the cases that fast-check generates in a test file if MTL_TEST_SEED is `seed`. */
async function listCases(seed) {
  vi.stubEnv('MTL_TEST_SEED', seed);
  vi.resetModules();
  await import('./seeded-properties.mjs');
  const cases = [];
  fc.assert(fc.property(fc.nat(), (number) => void cases.push(number)));
  return cases;
}

it('are set up where a package uses fast-check', () => {
  expect(setupFiles(join(packages, 'data'))).toContain(own);
  expect(setupFiles(join(packages, 'errors'))).not.toContain(own);
});

it('are tried with the same cases in every run, with others by another seed', async () => {
  const cases = await listCases(undefined);
  expect(await listCases('1')).toEqual(cases);
  expect(await listCases('2')).not.toEqual(cases);
});

it('refuse what is no seed', async () => {
  await expect(listCases('random')).rejects.toThrow('MTL_TEST_SEED=random is no whole number');
});

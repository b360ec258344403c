import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it, vi } from 'vitest';
import { BaseSequencer } from 'vitest/node';
import { library } from './preset.mjs';
import { slowSuites, suitesLeftOut } from './slow-suites.mjs';
import { SlowestFirst } from './slowest-first.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const files = Object.entries(slowSuites).flatMap(([folder, suites]) =>
  Object.keys(suites).map((file) => join(folder, file)),
);

afterEach(() => vi.unstubAllEnvs());

it.each(files)('%s exists', (file) => {
  expect(existsSync(join(root, file))).toBe(true);
});

it('leaves out the slow suites of the package alone, and only for the fast run', () => {
  const folder = join(root, 'packages', 'runs');
  vi.stubEnv('MTL_TEST_SUITES', 'all');
  expect(suitesLeftOut(folder)).toEqual([]);
  vi.stubEnv('MTL_TEST_SUITES', 'fast');
  expect(suitesLeftOut(folder)).toEqual(Object.keys(slowSuites['packages/runs']));
  expect(suitesLeftOut(join(root, 'packages', 'errors'))).toEqual([]);
});

it('is what the preset excludes, also where a package excludes files of its own', () => {
  vi.stubEnv('MTL_TEST_SUITES', 'fast');
  const { exclude } = library({ exclude: ['**/node_modules/**', 'own.test.mjs'] }).test;
  const expected = ['**/node_modules/**', 'own.test.mjs', ...Object.keys(slowSuites.tooling)];
  expect(exclude).toEqual(expected);
});

it('gives the order in which suites start: the slowest, then the others as vitest has them', async () => {
  const sort = vi.spyOn(BaseSequencer.prototype, 'sort').mockImplementation(async (files) => files);
  const files = ['fast.test.mjs', ...Object.keys(slowSuites.tooling), 'other.test.mjs'];
  const specifications = files.map((file) => ({ moduleId: join(root, 'tooling', file) }));
  const sorted = await SlowestFirst.prototype.sort(specifications);
  sort.mockRestore();
  const seconds = sorted.map(({ moduleId }) => slowSuites.tooling[relative(join(root, 'tooling'), moduleId)]);
  expect(seconds.slice(0, -2)).toEqual(Object.values(slowSuites.tooling).sort((left, right) => right - left));
  expect(sorted.slice(-2)).toEqual([specifications[0], specifications.at(-1)]);
});

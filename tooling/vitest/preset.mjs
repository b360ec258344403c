import { existsSync } from 'node:fs';
import { configDefaults, defineConfig } from 'vitest/config';
import { setupFiles } from './setup-files.mjs';
import { suitesLeftOut } from './slow-suites.mjs';
import { SlowestFirst } from './slowest-first.mjs';
import { workspaceConditions } from './workspace-conditions.mjs';

const conditions = [...workspaceConditions, 'node', 'import', 'module', 'default'];

/**
 * True if there is a GPU or an emulated GPU. Otherwise GPU tests are only skipped, and need no separate
 * processes.
 */
export const hasGpu = existsSync('/dev/nvidiactl') || process.env.MTL_CUDA_LIBRARY !== undefined;

/**
 * A preset for packages whose tests mostly wait, for processes or time-outs. Three test files run at the same
 * time.
 */
export const waiting = { maxWorkers: 3 };

/**
 * A preset for packages whose tests count neither tensors nor their memory. Test files share two processes,
 * and load imported modules only once. No file may leave changes in its process, such as a stubbed module or
 * a changed environment. Tests that count tensors or their memory cannot share a process, because the garbage
 * collector may free objects of earlier files late.
 */
export const shared = { isolate: false };

/**
 * A preset for packages with some test files that count tensors or memory, stub modules or change their
 * environment. Each of these files runs in a separate process; all remaining files run as with `shared`.
 *
 * @param {readonly string[]} counting patterns of the files with a separate process
 * @param {object} test additional settings for the package's tests, as for `library`
 */
export const sharedBut = (counting, test = {}) => ({
  ...test,
  projects: [
    library({ ...test, name: 'own process', include: [...counting] }),
    library({ ...test, ...shared, name: 'shared', exclude: [...configDefaults.exclude, ...counting] }),
  ],
});

/**
 * A preset for packages whose tests use all cores, or measure durations. Only one test file runs at a time.
 */
export const alone = { fileParallelism: false };

/**
 * Makes Node.js load the builds of lower packages without vitest's transformation. The transformation would
 * be repeated for every test file, and would take half of the import time. Only tests that run on sources
 * need it.
 */
const server = {
  deps: { external: workspaceConditions.length === 0 ? [/\/(packages|apps)\/[^/]+\/dist\//] : [] },
};

/**
 * Returns the vitest configuration for every package; `workspaceConditions` selects sources or builds of the
 * lower packages. Every test file runs in a separate process, so that a crash in native code fails only one
 * file. Two files run at a time, because a test uses one core most of the time. Time limits allow for busy
 * machines. `npm test` counts the tests in the JSON report. `npm test` without --all leaves out the slow
 * suites, and tests with the tag `whole`; when vitest runs alone in a package, it runs all tests.
 */
export function library(test = {}) {
  return defineConfig({
    resolve: { conditions },
    ssr: { resolve: { conditions } },
    test: {
      include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
      setupFiles: setupFiles(),
      pool: 'forks',
      server,
      fileParallelism: true,
      maxWorkers: 2,
      sequence: { sequencer: SlowestFirst },
      testTimeout: 120_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 60_000 } },
      // this variable is set because a training run would otherwise choose its number of threads by the load
      // of other programs
      env: { MTL_FREE_CORES: 'all' },
      // the path is set here, because an `outputFile` on the command line would not replace the path given
      // with this reporter
      reporters: [
        'default',
        ['json', { outputFile: process.env.MTL_TEST_REPORT ?? 'build/test-results.json' }],
      ],
      tags: [
        { name: 'whole', description: 'left to npm test -- --all: it takes seconds, and others are like it' },
      ],
      ...(process.env.MTL_TEST_SUITES === 'fast' ? { tagsFilter: ['!whole'] } : {}),
      ...test,
      exclude: [...(test.exclude ?? configDefaults.exclude), ...suitesLeftOut()],
    },
  });
}

import { existsSync } from 'node:fs';
import { configDefaults, defineConfig } from 'vitest/config';
import { setupFiles } from './setup-files.mjs';
import { suitesLeftOut } from './slow-suites.mjs';
import { SlowestFirst } from './slowest-first.mjs';
import { workspaceConditions } from './workspace-conditions.mjs';

const conditions = [...workspaceConditions, 'node', 'import', 'module', 'default'];

/**
 * True where there is a GPU or an emulation of one: elsewhere the tests of GPUs only skip, and need no
 * process each.
 */
export const hasGpu = existsSync('/dev/nvidiactl') || process.env.MTL_CUDA_LIBRARY !== undefined;

/**
 * A preset for packages whose tests wait most of the time, for processes or a time-out. More files run at
 * once.
 */
export const waiting = { maxWorkers: 3 };

/**
 * A preset for packages whose tests count neither tensors nor their memory. Files share two processes, and
 * read imported modules only once. No file may leave anything behind in its process, such as a stubbed module
 * or a changed environment. A garbage collector that frees objects late would disturb tests that count
 * tensors or their memory.
 */
export const shared = { isolate: false };

/**
 * For packages with test files that count tensors or memory, stub modules or change their environment:
 * each of these has a process of its own, and the others are as with `shared`.
 *
 * @param {readonly string[]} counting patterns of the files that have a process of their own
 * @param {object} test what else the package's tests have, as for `library`
 */
export const sharedBut = (counting, test = {}) => ({
  ...test,
  projects: [
    library({ ...test, name: 'own process', include: [...counting] }),
    library({ ...test, ...shared, name: 'shared', exclude: [...configDefaults.exclude, ...counting] }),
  ],
});

/** A preset for packages whose tests use all cores, or measure durations. One file runs at a time. */
export const alone = { fileParallelism: false };

/**
 * Builds of packages below are loaded by Node.js as they are: vitest would transform them again for every
 * test file, which took half of what importing takes. Where tests run on sources, it has to.
 */
const server = {
  deps: { external: workspaceConditions.length === 0 ? [/\/(packages|apps)\/[^/]+\/dist\//] : [] },
};

/**
 * The test run of every package, on what `workspaceConditions` says of the packages below.
 * Every file runs in a process of its own (a crash in native code is one failed file), two at a time: a test
 * uses one core most of the time. Limits of time hold on machines that do much else. The JSON report is what
 * `npm test` counts. `npm test` without --all leaves out the slow suites, and tests with the tag `whole`;
 * vitest in a package runs all.
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
      // how many threads a training run gets must not depend on what else the machine does
      env: { MTL_FREE_CORES: 'all' },
      // what the command line says of a reporter's file would not replace this
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

import { defineConfig } from 'vitest/config';

const conditions = ['@mtl/source', 'node', 'import', 'module', 'default'];

/**
 * For packages whose tests start processes and wait for them, for each other or for a time-out, a core at a time at most:
 * some files at once. Their limits of time hold on machines that do much else.
 */
export const waiting = { fileParallelism: true, maxWorkers: 3 };

/**
 * The test run of every package: sources of the workspace, not their builds, so that a test never sees a stale one.
 * Every file runs in a process of its own (a crash in native code is one failed file), one at a time, because kernels
 * use all cores. The JSON report is what `npm test` counts.
 */
export function library(test = {}) {
  return defineConfig({
    resolve: { conditions },
    ssr: { resolve: { conditions } },
    test: {
      include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
      pool: 'forks',
      fileParallelism: false,
      testTimeout: 120_000,
      hookTimeout: 120_000,
      // what the command line says of a reporter's file would not replace this
      reporters: [
        'default',
        ['json', { outputFile: process.env.MTL_TEST_REPORT ?? 'build/test-results.json' }],
      ],
      ...test,
    },
  });
}

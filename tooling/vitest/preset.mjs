import { defineConfig } from 'vitest/config';

/**
 * The test run of every package: sources of the workspace, not their builds, so that a test never sees a stale one.
 * Every file runs in a process of its own (a crash in native code is one failed file).
 */
export function library(test = {}) {
  return defineConfig({
    resolve: { conditions: ['@mtl/source', 'node', 'import', 'module', 'default'] },
    ssr: { resolve: { conditions: ['@mtl/source', 'node', 'import', 'module', 'default'] } },
    test: {
      include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
      pool: 'forks',
      testTimeout: 60_000,
      hookTimeout: 60_000,
      passWithNoTests: false,
      ...test,
    },
  });
}

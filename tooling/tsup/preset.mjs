import { defineConfig } from 'tsup';

/** The build of every package: ESM for Node 20 with declarations, from the named entry points. */
export function library(entry = ['src/index.ts']) {
  return defineConfig({
    entry,
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    dts: true,
    clean: true,
    sourcemap: true,
    splitting: true,
    treeshake: true,
  });
}

import { defineConfig } from 'tsup';

/**
 * The build of every package: ESM for Node 20 from the named entry points, with the declarations of `typed`.
 * Nothing in a checkout reads the declarations, and they take most of the time: MTL_DECLARATIONS=0 leaves
 * them out.
 */
export function library(entry = ['src/index.ts'], { typed = entry } = {}) {
  return defineConfig({
    entry,
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    dts: process.env.MTL_DECLARATIONS === '0' ? false : { entry: typed },
    clean: true,
    sourcemap: true,
    splitting: true,
    treeshake: true,
  });
}

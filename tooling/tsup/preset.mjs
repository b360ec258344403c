import { defineConfig } from 'tsup';

/**
 * The build of every package: ESM for Node 20 from the named entry points, with the declarations of `typed`.
 * Declarations copy the types of the packages `inlined`, so that these can be development dependencies.
 * Nothing in a checkout reads the declarations, and they take most of the time: MTL_DECLARATIONS=0 leaves
 * them out. `addFiles(folder)` puts further files into the folder of the build, which
 * build-packages.mjs names.
 */
export function library(entry = ['src/index.ts'], { typed = entry, inlined = [], addFiles } = {}) {
  const outDir = process.env.MTL_BUILD_FOLDER ?? 'dist';
  return defineConfig({
    entry,
    outDir,
    ...(addFiles === undefined ? {} : { onSuccess: () => addFiles(outDir) }),
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    dts: process.env.MTL_DECLARATIONS === '0' ? false : { entry: typed, resolve: inlined },
    clean: true,
    sourcemap: true,
    splitting: true,
    treeshake: true,
    // esbuild remembers the working directory that it was loaded in, and build-packages.mjs changes it
    esbuildOptions: (options) => {
      options.absWorkingDir = process.cwd();
    },
  });
}

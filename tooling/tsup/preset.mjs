import { defineConfig } from 'tsup';
import { entryPoints } from './entry-points.mjs';

export { entryPoints };

/**
 * The build of every package: ESM for Node 20 from the named entry points. build-packages.mjs makes the
 * declarations. `addFiles(folder)` puts further files into the folder of the build, which build-packages.mjs
 * names.
 */
export function library(entry = entryPoints(), { addFiles } = {}) {
  const outDir = process.env.MTL_BUILD_FOLDER ?? 'dist';
  return defineConfig({
    entry,
    outDir,
    ...(addFiles === undefined ? {} : { onSuccess: () => addFiles(outDir) }),
    format: ['esm'],
    target: 'node20',
    platform: 'node',
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

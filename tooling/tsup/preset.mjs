import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'tsup';

/** The entry points of the package in `folder`: the sources that it exports, and its program, src/main.ts. */
export function entryPoints(folder = process.cwd()) {
  const { exports = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const exported = Object.values(exports).flatMap((conditions) => conditions['@mtl/source'] ?? []);
  const program = existsSync(join(folder, 'src/main.ts')) ? ['src/main.ts'] : [];
  return [...exported.map((path) => path.replace(/^\.\//, '')), ...program];
}

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

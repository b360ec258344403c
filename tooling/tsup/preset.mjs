import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'tsup';

/** The folder that tsconfig.json names by a path of its own, which tsup would take from the package. */
const typeRoots = [fileURLToPath(new URL('../node_modules/@types', import.meta.url))];

/** The entry points of the package in `folder`: the sources that it exports, and its program, src/main.ts. */
export function entryPoints(folder = process.cwd()) {
  const { exports = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const exported = Object.values(exports).flatMap((conditions) => conditions['@mtl/source'] ?? []);
  const program = existsSync(join(folder, 'src/main.ts')) ? ['src/main.ts'] : [];
  return [...exported.map((path) => path.replace(/^\.\//, '')), ...program];
}

/**
 * The build of every package: ESM for Node 20 from the named entry points, with the declarations of `typed`.
 * Declarations copy the types of the packages `inlined`, so that these can be development dependencies.
 * Nothing in a checkout reads the declarations, and they take most of the time: MTL_DECLARATIONS=0 leaves
 * them out. `addFiles(folder)` puts further files into the folder of the build, which
 * build-packages.mjs names.
 */
export function library(entry = entryPoints(), { typed = entry, inlined = [], addFiles } = {}) {
  const outDir = process.env.MTL_BUILD_FOLDER ?? 'dist';
  return defineConfig({
    entry,
    outDir,
    ...(addFiles === undefined ? {} : { onSuccess: () => addFiles(outDir) }),
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    dts:
      process.env.MTL_DECLARATIONS === '0'
        ? false
        : { entry: typed, resolve: inlined, compilerOptions: { typeRoots } },
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

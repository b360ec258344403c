import { readFileSync } from 'node:fs';
import { defineConfig } from 'tsup';
import { addLicenses, ownUrls } from './bundled-packages.mjs';
import { entryPoints } from './entry-points.mjs';

export { entryPoints };

/**
 * Returns the build configuration that all packages use: ESM for Node 20, from the entry points `entry`.
 * build-packages.mjs makes the declarations. `addFiles(folder)` adds files to the build's folder, which
 * build-packages.mjs chooses. `bundles` names third-party packages whose code becomes part of the build, with
 * their licences. They consist of many small files, which would take long to import one by one.
 */
export function library(entry = entryPoints(), { addFiles, bundles = [] } = {}) {
  const outDir = process.env.MTL_BUILD_FOLDER ?? 'dist';
  return defineConfig({
    entry,
    ...(addFiles === undefined ? {} : { onSuccess: () => addFiles(outDir) }),
    ...common(outDir),
    treeshake: true,
    noExternal: [...bundles],
    esbuildPlugins: [addLicenses(outDir)],
  });
}

/**
 * The packages that are never bundled, because they load native code, or because only one copy of the error
 * classes may exist.
 */
const neverBundled = ['@mtl/kernels', '@mtl/comm', '@mtl/errors'];

/**
 * Returns the build configuration of a program that is bundled from sources, together with all code that it
 * uses from other packages. The program consists of few files, so it starts quickly. Bundled code finds its
 * package's other files (threads, pages, profiles) in the place where that package is installed.
 *
 * @param external names of imported modules that are not bundled. Third-party packages on which the program
 *   itself depends, and packages that load native code, are never bundled
 */
export function bundle({ entry, external = [] }) {
  const outDir = process.env.MTL_BUILD_FOLDER ?? 'dist';
  const { dependencies = {} } = JSON.parse(readFileSync('package.json', 'utf8'));
  const thirdParties = Object.keys(dependencies).filter((name) => !name.startsWith('@mtl/'));
  const left = [...neverBundled, ...thirdParties];
  const shared = common(outDir);
  return defineConfig({
    entry,
    ...shared,
    sourcemap: false,
    noExternal: [new RegExp(`^(?!(${left.join('|')})(/|$))[@a-z]`)],
    external: [...left, ...external],
    esbuildPlugins: [ownUrls(), addLicenses(outDir)],
    esbuildOptions: (options, context) => {
      shared.esbuildOptions(options, context);
      options.conditions = ['@mtl/source'];
    },
  });
}

const common = (outDir) => ({
  outDir,
  format: ['esm'],
  target: 'node20',
  platform: 'node',
  // build-packages.mjs names a new folder
  clean: process.env.MTL_BUILD_FOLDER === undefined,
  sourcemap: true,
  splitting: true,
  // esbuild remembers the working directory in which it was loaded, but build-packages.mjs changes the
  // working directory
  esbuildOptions: (options) => {
    options.absWorkingDir = process.cwd();
    options.metafile = true; // which licences are named by
  },
});

import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildSync } from 'esbuild';
import { workspaceConditions } from './workspace-conditions.mjs';

const preload = new URL('./typescript-loader.mjs', import.meta.url);
const execArgv = workspaceConditions.map((condition) => `--conditions=${condition}`);
const areBuilds = process.env.MTL_TEST_BUILDS !== undefined;

/**
 * Options of `runInMemoryRanks` with which its threads run TypeScript and find the packages of the workspace.
 *
 * @type {{ readonly preload: URL, readonly execArgv: readonly string[] }}
 */
export const typescriptThreads = { preload, execArgv };

/**
 * Flags of Node with which a process runs TypeScript and finds the packages of the workspace.
 *
 * @type {readonly string[]}
 */
export const typescriptFlags = [...execArgv, '--import', preload.href];

/**
 * Flags of Node for a process that runs JavaScript with the packages of the workspace: If the packages are
 * builds, the process runs without a loader, because starting the loader takes as long as importing the
 * packages.
 *
 * @type {readonly string[]}
 */
export const workspaceFlags = areBuilds ? execArgv : typescriptFlags;

/**
 * Returns options with which `runInMemoryRanks` runs the TypeScript module at `url`. The module's package
 * must depend on
 * @mtl/comm.
 *
 * @param {URL} url
 * @returns {{ readonly module: URL, readonly preload?: URL, readonly execArgv: readonly string[] }}
 */
export function rankThreads(url) {
  return { ...(areBuilds ? { execArgv } : typescriptThreads), module: rankModule(url) };
}

/**
 * Returns the paths of sources that packages share for tests, by import name. Builds do not contain these
 * sources.
 *
 * @returns {Record<string, string>}
 */
function testSupport() {
  const packages = fileURLToPath(new URL('../../packages', import.meta.url));
  const manifests = readdirSync(packages)
    .map((name) => join(packages, name, 'package.json'))
    .filter(existsSync);
  return Object.fromEntries(
    manifests.flatMap((path) => {
      const { name, exports = {} } = JSON.parse(readFileSync(path, 'utf8'));
      return Object.entries(exports)
        .filter(([, { default: source }]) => source.startsWith('./test/'))
        .map(([entry, { default: source }]) => [join(name, entry), join(dirname(path), source)]);
    }),
  );
}

/**
 * The compiled files of this process, by the URLs of their sources. Tests start the same ranks many times.
 */
const compiled = new Map();

/**
 * Returns the URL from which threads, and processes with `workspaceFlags`, import the TypeScript module at
 * `url`. On builds, the module and its imports from the same package are compiled into one file, because a
 * rank then starts in a third of the time. The file is in the package's folder `build`, at the depth of the
 * sources, because modules find other files by relative paths.
 *
 * @param {URL} url
 * @returns {URL}
 */
export function rankModule(url) {
  if (!areBuilds) return url;
  if (!compiled.has(url.href)) compiled.set(url.href, compile(url));
  return compiled.get(url.href);
}

/** Compiles the module at `url` into one file. */
function compile(url) {
  const source = fileURLToPath(url);
  const folder = /^(.*)\/(?:src|test)\//.exec(source)[1];
  const file = join(folder, 'build', `${basename(source, '.ts')}.mjs`);
  const partial = `${file}.${randomUUID()}`;
  buildSync({
    entryPoints: [source],
    outfile: partial,
    bundle: true,
    packages: 'external',
    alias: testSupport(),
    format: 'esm',
    platform: 'node',
    target: `node${process.versions.node}`,
    logLevel: 'warning',
  });
  renameSync(partial, file); // once it is whole: other tests may be reading it
  return pathToFileURL(file);
}

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
 * Options for `runInMemoryRanks` that let its threads run TypeScript and find the workspace's packages.
 *
 * @type {{ readonly preload: URL, readonly execArgv: readonly string[] }}
 */
export const typescriptThreads = { preload, execArgv };

/**
 * Node flags for a process that runs TypeScript with the workspace's packages.
 *
 * @type {readonly string[]}
 */
export const typescriptFlags = [...execArgv, '--import', preload.href];

/**
 * Node flags for a process that runs JavaScript with the workspace's packages. If the tests use builds, the
 * process runs without a TypeScript loader, because starting the loader takes as long as importing the
 * packages.
 *
 * @type {readonly string[]}
 */
export const workspaceFlags = areBuilds ? execArgv : typescriptFlags;

/**
 * Returns options for `runInMemoryRanks` that let its threads run the TypeScript module at `url`. The
 * module's package must depend on `@mtl/comm`.
 *
 * @param {URL} url
 * @returns {{ readonly module: URL, readonly preload?: URL, readonly execArgv: readonly string[] }}
 */
export function rankThreads(url) {
  return { ...(areBuilds ? { execArgv } : typescriptThreads), module: rankModule(url) };
}

/**
 * Returns the paths of the test sources that packages export to each other, by import name. Builds do not
 * contain these sources.
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
 * The URLs of the files that this process has compiled, by the URLs of their sources. Tests start the same
 * ranks many times.
 */
const compiled = new Map();

/**
 * Returns the URL from which threads, and processes with `workspaceFlags`, import the TypeScript module at
 * `url`. If the tests use builds, the module and its imports from the same package are compiled into one
 * file, because a rank then starts in a third of the time. The file is in the package's folder `build`, which
 * is as deep as `src` and `test`, because modules find other files by relative paths.
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

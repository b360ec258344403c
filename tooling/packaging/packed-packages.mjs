import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addonFoldersHere, platformFoldersFor, portableFolders } from '../release/platform-folders.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const binaries = join(root, 'node_modules', '.bin');

/** Returns the options for running a command. The checkout's tools are first on PATH. */
const makeOptions = ({ cwd = root, env = {} } = {}) => ({
  cwd,
  encoding: 'utf8',
  maxBuffer: 1 << 28,
  env: {
    ...process.env,
    PATH: `${binaries}${delimiter}${process.env.PATH}`,
    NODE_OPTIONS: '',
    NODE_PATH: '', // by which pnpm's commands find packages of the checkout
    TURBO_TELEMETRY_DISABLED: '1',
    npm_config_loglevel: 'error',
    ...env,
  },
});

/**
 * Runs a command with the checkout's tools first on PATH and returns its status and everything it printed.
 */
export function run(command, args, options) {
  const { status, stdout = '', stderr = '', error } = spawnSync(command, args, makeOptions(options));
  return { status, stdout, output: `${stdout}${stderr}${error === undefined ? '' : error.message}` };
}

/** Does the same as `run`, but asynchronously, so that several commands can run at the same time. */
export function runConcurrently(command, args, options) {
  return new Promise((resolve) => {
    const child = execFile(command, args, makeOptions(options), (error, stdout, stderr) => {
      const failure = typeof error?.code === 'string' ? error.message : '';
      resolve({ status: child.exitCode, stdout, output: `${stdout}${stderr}${failure}` });
    });
  });
}

/** Returns the manifests of all published packages, by name. */
export function publishedPackages() {
  const manifests = readdirSync(join(root, 'packages'))
    .map((folder) => JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8')))
    .filter((manifest) => manifest.private !== true);
  return new Map(manifests.map((manifest) => [manifest.name, manifest]));
}

/** Returns `name` and every published package that it depends on, directly or indirectly. */
export function withDependencies(name, packages = publishedPackages()) {
  const found = new Set([name]);
  for (const each of found) {
    for (const dependency of Object.keys(packages.get(each).dependencies ?? {})) {
      if (packages.has(dependency)) found.add(dependency);
    }
  }
  return [...found];
}

/** Returns the path of the tarball that pnpm writes for a package into `directory`. */
export const locateTarball = ({ name, version }, directory) =>
  join(directory, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`);

/**
 * Packs every published package into `directory`, as a release does. Returns the paths of the tarballs by
 * package name. Throws if a package was built without declarations, unless `hasTypes` is false.
 */
export function packPackages(directory, { hasTypes = true } = {}) {
  mkdirSync(directory, { recursive: true });
  const unchecked = hasTypes ? [] : ['--config.ignore-scripts=true'];
  const words = ['-r', '--filter', './packages/*', ...unchecked, 'pack', '--pack-destination', directory];
  const packed = run('pnpm', words);
  if (packed.status !== 0) throw new Error(packed.output);
  return new Map(
    [...publishedPackages().values()].map((manifest) => [manifest.name, locateTarball(manifest, directory)]),
  );
}

/**
 * Packs this machine's platform packages into `directory`, with the addons of the local build. Returns the
 * paths of the tarballs by package name. These packages load only on this machine; the addons that a release
 * builds load on other machines, too.
 */
export function packLocalBuilds(directory) {
  return packFolders(addonFoldersHere(root), { directory, build: 'Release' });
}

/**
 * Packs the platform packages for the processor `arch` into `directory`, as `build:platform` has made them.
 *
 * @throws Error if they are not built
 */
export function packPlatformPackages(directory, arch) {
  const folders = platformFoldersFor(root, arch).filter(({ isAddon }) => isAddon);
  const selection = folders.flatMap(({ name }) => ['--filter', name]);
  const packed = run('pnpm', ['-r', ...selection, 'pack', '--pack-destination', directory]);
  if (packed.status !== 0) throw new Error(packed.output);
  return new Map(folders.map(({ name, manifest }) => [name, locateTarball(manifest, directory)]));
}

/** Packs the package with the kernels as WebAssembly in the same way, with the module of the local build. */
export function packWebAssembly(directory) {
  return packFolders(portableFolders(root), { directory, build: 'Wasm' });
}

/** Packs the given packages from platforms/ with the binaries of the local build named `build`. */
function packFolders(folders, { directory, build }) {
  for (const { manifest, packageOf = 'kernels', directory: sources } of folders) {
    const folder = join(directory, 'binaries', manifest.name, 'package');
    mkdirSync(folder, { recursive: true });
    const { scripts: _, devDependencies: __, ...published } = manifest;
    writeFileSync(join(folder, 'package.json'), JSON.stringify(published));
    const binaries = join(root, 'packages', packageOf, 'build', build);
    // only a release writes the licences and the record of the sources
    for (const file of manifest.files.filter((each) => each.includes('.') && each !== 'built-from.json')) {
      const from = join(/^(lib)?mtl_/.test(file) ? binaries : sources, file);
      if (existsSync(from)) cpSync(from, join(folder, file));
    }
    const tarball = locateTarball(manifest, directory);
    const packed = run('tar', ['czf', tarball, '-C', join(folder, '..'), 'package']);
    if (packed.status !== 0) throw new Error(packed.output);
  }
  return new Map(folders.map(({ name, manifest }) => [name, locateTarball(manifest, directory)]));
}

/** Returns the names of the platform packages on which the packages in `names` may depend. */
const listPlatformPackages = (names, packages = publishedPackages()) =>
  names.flatMap((name) => Object.keys(packages.get(name).optionalDependencies ?? {}));

/**
 * Installs the package `name` into an empty folder, as a user's npm would. This repository's packages on
 * which it depends are installed from their tarballs, and all other packages from the registry or npm's
 * cache; no install script runs. Platform packages are installed too unless `withPlatform` is false.
 */
export async function installPackage({ name, tarballs, directory, withPlatform = true }) {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'package.json'), '{ "private": true, "type": "module" }\n');
  const names = withDependencies(name);
  // the WebAssembly kernels are not packed, because they need a separate compiler
  const platforms = withPlatform ? listPlatformPackages(names).filter((each) => tarballs.has(each)) : [];
  const files = [...names, ...platforms].map((each) => tarballs.get(each));
  const flags = [
    ...['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'],
    ...(withPlatform ? [] : ['--omit=optional']),
  ];
  const installed = await runConcurrently('npm', ['install', ...flags, ...files], { cwd: directory });
  if (installed.status !== 0) throw new Error(installed.output);
  return join(directory, 'node_modules', name);
}

/** Returns true if third-party packages are available, from npm's cache or from the registry. */
export function canInstall() {
  const flags = ['--prefer-offline', '--fetch-retries=0', '--fetch-timeout=10000'];
  return run('npm', ['view', 'node-addon-api', 'version', ...flags]).status === 0;
}

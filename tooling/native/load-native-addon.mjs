import { lowestGlibc } from './lowest-glibc.mjs';

/**
 * Returns functions from Node's modules. The modules are loaded only when this function is called, because
 * web pages load files that import this file but never call it.
 */
const modules = () => ({
  ...process.getBuiltinModule('node:fs'),
  ...process.getBuiltinModule('node:path'),
  createRequire: process.getBuiltinModule('node:module').createRequire,
});

const readManifest = (path) => JSON.parse(modules().readFileSync(path, 'utf8'));

/**
 * A loaded addon, and the path of its file.
 *
 * @template Addon
 * @typedef {{ readonly addon: Addon, readonly path: string }} LoadedAddon
 */

/**
 * The result if no addon could be loaded. `failures` has one line for each place that was tried, with the
 * reason why it failed.
 *
 * @typedef {object} MissingAddon
 * @property {undefined} [addon]
 * @property {boolean} isAbsent true if no place has an addon for this platform
 * @property {readonly string[]} failures
 * @property {string} remedy
 */

/**
 * Loads the native addon of the package in `directory`. The places are tried in this order: the file
 * `explicit` if given, the local build, the platform package (NAME-linux-x64). The first place that has a
 * file is used, even if the file cannot be loaded, so that a broken local build is not silently replaced by
 * the platform package. If no place has the addon, or it cannot be loaded, the result has `failures`, one
 * line each, and the remedy.
 *
 * @template Addon
 * @param {object} options
 * @param {string} options.directory the folder of the package with its package.json
 * @param {string} options.file the file name of the addon, such as mtl_kernels.node
 * @param {string | undefined} options.explicit a file to load instead of trying the places
 * @param {string} options.command the command that compiles the addon
 * @param {string} options.needs the requirements of the command, for messages
 * @param {(addon: Addon) => void} [options.accept] called with the loaded addon; throws if the addon cannot
 * be used
 * @returns {LoadedAddon<Addon> | MissingAddon}
 */
export function loadNativeAddon({ directory, file, explicit, command, needs, accept }) {
  const { createRequire, existsSync, join } = modules();
  const require = createRequire(join(directory, 'package.json'));
  const compile = `npx ${command}, or in a checkout npm run build:native (needs ${needs})`;
  const load = (path) => {
    try {
      const addon = require(path);
      accept?.(addon);
      return { addon, path: require.resolve(path) };
    } catch (error) {
      const [reason] = error.message.split('\n');
      return { isAbsent: false, failures: [`${path}: ${reason}`], remedy: chooseRemedy(reason, compile) };
    }
  };
  const local = join(directory, 'build', 'Release', file);
  if (explicit !== undefined) return load(explicit);
  if (existsSync(local)) return load(local);
  const notBuilt = `${local}: not built`;
  const found = findPlatformPackage({ require, directory, file });
  if (found.path !== undefined) return load(found.path);
  const remedy = found.isInCheckout === true ? compile : `${reinstall}; or compile it here: ${compile}`;
  return { isAbsent: found.isAbsent, failures: [notBuilt, found.failure], remedy };
}

/**
 * See npm/cli#4828: if node_modules exists while npm writes a lock file, the file lists only the packages for
 * the current machine.
 */
const reinstall =
  'install again, with optional packages (no --omit=optional); a package-lock.json made on another platform ' +
  'leaves them out too: remove node_modules and package-lock.json first';

function chooseRemedy(reason, compile) {
  if (!reason.includes('GLIBC_')) return compile;
  const systems = 'Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9 and newer';
  return `the platform package needs glibc ${lowestGlibc} (${systems}); compile it here: ${compile}`;
}

/**
 * Returns the path of the addon in the platform package of this machine, or the reason why the package is
 * missing.
 */
function findPlatformPackage({ require, directory, file }) {
  const { dirname, existsSync, join } = modules();
  const { name, version } = readManifest(join(directory, 'package.json'));
  const platformPackage = `${name}-${process.platform}-${process.arch}`;
  let manifest;
  try {
    manifest = require.resolve(`${platformPackage}/package.json`);
  } catch {
    return { failure: `${platformPackage}: not installed`, isAbsent: true };
  }
  const path = join(dirname(manifest), file);
  // the platform package is this workspace's folder, into which only the release program writes addons
  if (!existsSync(path)) return { failure: `${path}: not built`, isAbsent: true, isInCheckout: true };
  const { version: found } = readManifest(manifest);
  if (found === version) return { path };
  return {
    failure: `${platformPackage}: version ${found}, expected ${version} as ${name} has`,
    isAbsent: false,
  };
}

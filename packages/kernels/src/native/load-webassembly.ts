import type { KernelsAddon, LoadedKernels } from './kernels-addon.js';

/** The package that contains the WebAssembly module and the JavaScript that loads the module. */
interface WebAssemblyPackage {
  loadKernels(path: string): KernelsAddon;
}

/** Why there are no kernels to load, and how to get them. */
interface MissingWebAssembly {
  readonly addon?: undefined;
  readonly failure: string;
  readonly remedy: string;
}

/**
 * Loads the WebAssembly kernels: the local build of the package in `directory`, or the module in the package
 * NAME-wasm32, which must have the same version as the package.
 *
 * @throws WebAssembly.CompileError if this version of Node.js cannot compile the module
 */
export function loadWebAssembly({
  directory,
}: {
  readonly directory: string;
}): LoadedKernels | MissingWebAssembly {
  const { createRequire } = process.getBuiltinModule('node:module');
  const { existsSync } = process.getBuiltinModule('node:fs');
  const { dirname, join } = process.getBuiltinModule('node:path');
  const require = createRequire(join(directory, 'package.json'));
  const { name, version: expected } = readManifest(join(directory, 'package.json'));
  const webAssemblyPackage = `${name}-wasm32`;
  let manifest: string;
  try {
    manifest = require.resolve(`${webAssemblyPackage}/package.json`);
  } catch {
    return {
      failure: `${webAssemblyPackage}: not installed`,
      remedy: 'install again, with optional packages (no --omit=optional)',
    };
  }
  const { version: found } = readManifest(manifest);
  if (found !== expected) {
    return {
      failure: `${webAssemblyPackage}: version ${found}, expected ${expected} as ${name} has`,
      remedy: `install ${webAssemblyPackage}@${expected}`,
    };
  }
  const file = 'mtl_kernels.wasm';
  const paths = [join(directory, 'build', 'Wasm', file), join(dirname(manifest), file)];
  const path = paths.find((each) => existsSync(each));
  if (path === undefined) {
    return {
      failure: `${paths.join(' and ')}: not built`,
      remedy: 'npm run dev -- build:wasm builds it in a checkout',
    };
  }
  const { loadKernels } = require(webAssemblyPackage) as WebAssemblyPackage;
  return { addon: loadKernels(path), path, isWebAssembly: true };
}

function readManifest(path: string): { readonly name: string; readonly version: string } {
  return JSON.parse(process.getBuiltinModule('node:fs').readFileSync(path, 'utf8'));
}

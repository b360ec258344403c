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

/** The modules by the value of `MTL_KERNELS` that selects the module. */
const files = {
  /** With threads on shared memory. */
  wasm: 'mtl_kernels.wasm',
  /** Without shared memory; one thread computes. */
  'wasm-single': 'mtl_kernels_single.wasm',
  /** As `wasm`, with relaxed SIMD: results differ from machine to machine. */
  'wasm-relaxed': 'mtl_kernels_relaxed.wasm',
} as const;

export type WebAssemblyChoice = keyof typeof files;

export const webAssemblyChoices = Object.keys(files) as readonly WebAssemblyChoice[];

/**
 * Loads the kernels as WebAssembly: the local build of the package in `directory`, or a module in the package
 * NAME-wasm32, which must have the same version. Without a choice, the module has threads where there is
 * shared memory.
 */
export function loadWebAssembly({
  directory,
  choice = globalThis.SharedArrayBuffer === undefined ? 'wasm-single' : 'wasm',
}: {
  readonly directory: string;
  readonly choice?: WebAssemblyChoice | undefined;
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
  const file = files[choice];
  const paths = [join(directory, 'build', 'Wasm', file), join(dirname(manifest), file)];
  const path = paths.find((each) => existsSync(each));
  if (path === undefined) {
    return {
      failure: `${paths.join(' and ')}: not built`,
      remedy: 'npm run dev -- build:wasm builds it in a checkout',
    };
  }
  const { loadKernels } = require(webAssemblyPackage) as WebAssemblyPackage;
  try {
    return { addon: loadKernels(path), path, isWebAssembly: true };
  } catch (error) {
    // Node's types do not declare WebAssembly.CompileError
    if (!(error instanceof Error && error.name === 'CompileError')) throw error;
    const [which, remedy] =
      choice === 'wasm-relaxed'
        ? [
            ', which has relaxed SIMD',
            'take Node.js 22 or newer, or MTL_KERNELS=wasm, which has no relaxed SIMD',
          ]
        : ['', 'take a newer Node.js'];
    const failure = `Node.js ${process.versions.node} does not compile ${path}${which}: ${error.message}`;
    return { failure, remedy };
  }
}

function readManifest(path: string): { readonly name: string; readonly version: string } {
  return JSON.parse(process.getBuiltinModule('node:fs').readFileSync(path, 'utf8'));
}

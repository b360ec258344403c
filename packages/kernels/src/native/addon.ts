import { KernelError, UsageError } from '@mtl/errors';
import type { KernelsAddon, LoadedKernels } from './kernels-addon.js';
import { loadAddon } from './load-addon.js';

let loaded: LoadedKernels | undefined;

/**
 * Returns the addon. It is loaded when this function is first called, so that importing the package never
 * fails.
 */
export function addon(): KernelsAddon {
  loaded ??= loadAddon();
  return loaded.addon;
}

/**
 * Sets the addon to one that the caller has loaded. @throws UsageError MTL_ARGUMENT if an addon is already
 * loaded
 */
export function provideAddon(given: LoadedKernels): void {
  if (loaded !== undefined) {
    throw new UsageError('MTL_ARGUMENT', `kernels are loaded already: ${loaded.path}`, {
      expected: 'to be given kernels once, before anything else of @mtl/kernels is called',
    });
  }
  loaded = given;
}

/**
 * Returns the path of the file from which the addon was loaded, and in `isWebAssembly`, true if it is
 * WebAssembly.
 */
export function addonOrigin(): Omit<LoadedKernels, 'addon'> {
  loaded ??= loadAddon();
  const { path, isWebAssembly } = loaded;
  return { path, isWebAssembly };
}

/** The remedy that makes the kernels native, worded as the end of a sentence. */
export const nativeRemedy =
  'install a platform package (Linux with glibc on x86-64 and arm64 has one) or compile the kernels with npx mtl-kernels-build, and unset MTL_KERNELS';

/** The remedy in an `MTL_OUT_OF_MEMORY` error, for both device and host memory. */
export const outOfMemoryRemedy =
  'dispose of tensors that are no longer needed (tidy does so at the end of a scope), or take smaller batches and shorter sequences; a limit set by limitMemory(device, bytes) is lifted by limitMemory(device, 0)';

const remedies: Readonly<Record<string, string>> = {
  MTL_INDEX:
    'tokens and labels must come from a tokenizer with the vocabulary of the model; labels that are not to count have weight 0 or are the ignoreIndex',
  MTL_INSTRUCTION_SET:
    'hostInformation() has the instruction sets of this machine and of the build; in a checkout npm run build:native compiles for all',
  MTL_META: 'compute on device cpu or cuda, or leave the values unread: device meta only counts',
  MTL_MATMUL_CHOICES:
    'the choices were made on another machine or for another build: remove their file, or leave --time-matmuls out',
  MTL_OUT_OF_MEMORY: outOfMemoryRemedy,
  MTL_WEBASSEMBLY:
    'ask for one thread, or take the kernels with shared memory: MTL_KERNELS=wasm, or a page that is isolated from other origins',
};

/** Converts an error thrown by native code to a KernelError with the same code. */
function asKernelError(error: unknown): unknown {
  if (error instanceof Error && !(error instanceof KernelError) && 'code' in error) {
    const code = String(error.code);
    if (code.startsWith('MTL_')) {
      const remedy = remedies[code];
      return new KernelError(code as `MTL_${string}`, error.message, {
        ...(remedy === undefined ? {} : { remedy }),
        cause: error,
      });
    }
  }
  return error;
}

/** Runs `body`, and converts errors that native code throws. */
export function callNative<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw asKernelError(error);
  }
}

/**
 * Returns an external value through which a separate native addon accesses the memory of tensors by their
 * handles (see native/include/mtl/tensor_handle.h).
 *
 * @throws KernelError MTL_WEBASSEMBLY if the kernels are WebAssembly
 */
export function tensorApi(): unknown {
  if (addonOrigin().isWebAssembly) {
    throw new KernelError(
      'MTL_WEBASSEMBLY',
      'the kernels are WebAssembly, whose tensors no other native code reaches: ranks in processes need native kernels',
      {
        remedy: `train in one process; for several, ${nativeRemedy}`,
        exitCode: 2,
      },
    );
  }
  return addon().tensorApi;
}

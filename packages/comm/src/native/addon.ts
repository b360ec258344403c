import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import { tensorApi } from '@mtl/kernels/internal';
import { loadNativeAddon } from '@mtl/tooling/load-native-addon';
import { platformProblem } from '@mtl/tooling/platform-problem';
import { type CommAddon, expectedBindings, type NativeFailure } from './comm-addon.js';

let loaded: CommAddon | undefined;

/** Returns the addon. It is loaded at its first use, so that importing this package never fails. */
export function addon(): CommAddon {
  loaded ??= loadAddon();
  return loaded;
}

const misuse = ['MTL_ARGUMENT', 'MTL_CLOSED', 'MTL_DISPOSED_TENSOR', 'MTL_DEVICE', 'MTL_CAPTURE'];

const diedRemedy =
  'read the last words of that rank; one without any was mostly ended because memory ran out (SIGKILL; dmesg tells). ' +
  'Start again from the newest checkpoint with --load DIR; mtl run --max-restarts N does it by itself';

/** Converts a failure of native code to an error. The class of the error depends on the code. */
export function convertFailure(failure: NativeFailure): MtlError {
  const { message, code, rank, group, operation, sequence, waitedMs } = failure;
  const details = { rank, group, operation, sequence, waitedMs };
  const known = Object.fromEntries(Object.entries(details).filter(([, value]) => value !== undefined));
  const Class = misuse.includes(code) ? UsageError : CommunicationError;
  const remedy = code === 'MTL_RANK_DIED' ? { remedy: diedRemedy } : {};
  return new Class(code as `MTL_${string}`, message, { ...remedy, details: known });
}

/** Runs `body`, and converts errors that native code throws. */
export function callNative<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw converted(error);
  }
}

/** Awaits native work on another thread, and converts its failures. */
export async function awaitNative<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    throw converted(error);
  }
}

function converted(error: unknown): unknown {
  const isNative = error instanceof Error && !MtlError.isInstance(error) && 'code' in error;
  return isNative ? convertFailure(error as unknown as NativeFailure) : error;
}

/**
 * Returns the folder of this package, both if this code runs from the sources and if it runs from the build.
 */
function packageDirectory(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) directory = dirname(directory);
  return directory;
}

/**
 * Loads the native addon and connects it to the addon of @mtl/kernels. The addon's path is MTL_COMM_ADDON if
 * it is set, else the local build, else the platform package. An error lists the paths that were tried and
 * the remedy. If `usesTensors` is false, the addon of @mtl/kernels is not loaded, and functions with tensors
 * must not be called.
 *
 * @throws KernelError MTL_WEBASSEMBLY if the kernels are WebAssembly; CommunicationError MTL_PLATFORM,
 *   MTL_ADDON
 */
export function loadAddon({ usesTensors = true }: { readonly usesTensors?: boolean } = {}): CommAddon {
  // the kernels are checked first: if they are WebAssembly, the error must say so, although the addon of this
  // package may be missing, too
  const tensors = usesTensors ? tensorApi() : undefined;
  const loaded = loadNativeAddon<CommAddon>({
    directory: packageDirectory(),
    file: 'mtl_comm.node',
    explicit: process.env.MTL_COMM_ADDON,
    command: 'mtl-comm-build',
    needs: 'g++ and cmake',
    accept: ({ bindings = 1 }) => {
      if (bindings !== expectedBindings)
        throw new Error(`built from other sources (bindings ${bindings}, expected ${expectedBindings})`);
    },
  });
  if (loaded.addon !== undefined) {
    if (usesTensors) loaded.addon.useTensors(tensors);
    return loaded.addon;
  }
  const problem = platformProblem();
  if (problem !== undefined) {
    const { message, ...advice } = problem;
    throw new CommunicationError('MTL_PLATFORM', `the native engines could not be loaded: ${message}`, {
      ...advice,
      exitCode: 2,
    });
  }
  throw new CommunicationError(
    'MTL_ADDON',
    `the native engines of @mtl/comm could not be loaded\n    ${loaded.failures.join('\n    ')}`,
    {
      remedy: loaded.remedy,
      exitCode: 2,
    },
  );
}

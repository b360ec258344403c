import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import type { CommAddon, NativeFailure } from './comm-addon.js';
import { loadAddon } from './load-addon.js';

let loaded: CommAddon | undefined;

/** The addon, loaded at first use so that importing the package never fails. */
export function addon(): CommAddon {
  loaded ??= loadAddon();
  return loaded;
}

const misuse = ['MTL_ARGUMENT', 'MTL_CLOSED', 'MTL_DISPOSED_TENSOR', 'MTL_DEVICE', 'MTL_CAPTURE'];

/** A failure of native code as the error that it stands for. */
export function errorOf(failure: NativeFailure): MtlError {
  const { message, code, rank, group, operation, sequence, waitedMs } = failure;
  const details = { rank, group, operation, sequence, waitedMs };
  const known = Object.fromEntries(Object.entries(details).filter(([, value]) => value !== undefined));
  const Class = misuse.includes(code) ? UsageError : CommunicationError;
  return new Class(code as `MTL_${string}`, message, { details: known });
}

/** Runs `body`, converting what native code throws. */
export function callNative<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw converted(error);
  }
}

/** The same for what native code does on another thread. */
export async function awaitNative<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    throw converted(error);
  }
}

function converted(error: unknown): unknown {
  const isNative = error instanceof Error && !MtlError.isInstance(error) && 'code' in error;
  return isNative ? errorOf(error as unknown as NativeFailure) : error;
}

import { packError, unpackError } from './error-message.js';
import { MtlError, type MtlErrorOptions } from './mtl-error.js';

/** Parts of an error that are replaced; parts that are missing or undefined stay the same. */
type ErrorChanges = { readonly message?: string | undefined } & {
  readonly [Name in 'remedy' | 'exitCode']?: MtlErrorOptions[Name] | undefined;
};

/**
 * Returns an error with some parts replaced, for a caller that knows the remedy, the place or the exit status
 * better. Class, code, expectation and details stay; the error itself is the cause of the new one.
 */
export function changedError(error: MtlError, { message, remedy, exitCode }: ErrorChanges): MtlError {
  const packed = packError(error, { name: error.name, code: error.code });
  return unpackError(
    {
      ...packed,
      ...(message === undefined ? {} : { message }),
      ...(remedy === undefined ? {} : { remedy }),
      ...(exitCode === undefined ? {} : { exitCode }),
    },
    { cause: error },
  );
}

/**
 * Returns the error with other words: `reword` is applied to its message, expectation and remedy, one after
 * the other. Class, code, details and exit status stay; the error itself is the cause of the new one. A value
 * that is not an `MtlError` is returned unchanged.
 */
export function rewordError(error: unknown, reword: (text: string) => string): unknown {
  if (!MtlError.isInstance(error)) return error;
  const { expected, remedy, ...packed } = packError(error, { name: error.name, code: error.code });
  return unpackError(
    {
      ...packed,
      message: reword(packed.message),
      ...(expected === undefined ? {} : { expected: reword(expected) }),
      ...(remedy === undefined ? {} : { remedy: reword(remedy) }),
    },
    { cause: error },
  );
}

/**
 * Runs a file operation whose errors do not name the file, such as a write to a descriptor: the message of
 * the system's error (a full disk, a quota) then begins with the path, and its code stays.
 */
export function namingFile<Result>(path: string, operation: () => Result): Result {
  try {
    return operation();
  } catch (error) {
    const known = error as Partial<NodeJS.ErrnoException> | null | undefined;
    const isUnnamed = error instanceof Error && typeof known?.code === 'string' && known.path === undefined;
    if (!isUnnamed) throw error;
    const named = new Error(`${path}: ${error.message}`, { cause: error });
    throw Object.assign(named, { code: known.code, path });
  }
}

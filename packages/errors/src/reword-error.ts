import { packError, unpackError } from './error-message.js';
import { MtlError, type MtlErrorOptions } from './mtl-error.js';

/** The properties of an error to replace; those that are missing or undefined stay the same. */
type ErrorChanges = { readonly message?: string | undefined } & {
  readonly [Name in 'remedy' | 'exitCode']?: MtlErrorOptions[Name] | undefined;
};

/**
 * Returns an error with some properties replaced, for a caller that can give a better remedy, message or exit
 * code. Class, code, `expected` and `details` stay the same, and the original error is its cause.
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
 * Returns an error in other words: `reword` is applied to message, `expected` and remedy. Class, code,
 * details and exit code stay the same, and the original error is its cause. A value that is not an `MtlError`
 * is returned unchanged.
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
 * Runs a file operation whose errors do not name the file, such as a write to a descriptor. The message of a
 * system error (a full disk, a quota) then begins with the path; its code stays the same.
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

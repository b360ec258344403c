import { packError, unpackError } from './error-message.js';
import { MtlError, type MtlErrorOptions } from './mtl-error.js';

/** The properties of an error to replace. Properties that are missing or undefined stay the same. */
type ErrorChanges = { readonly message?: string | undefined } & {
  readonly [Name in 'remedy' | 'exitCode']?: MtlErrorOptions[Name] | undefined;
};

/**
 * Returns an error with some properties replaced. Used by callers that can give a better message, remedy or
 * exit code. Class, code, `expected` and `details` stay the same, and the original error is the new error's
 * cause.
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
 * Returns an error in different words: `reword` is applied to message, `expected` and remedy. Class, code,
 * details and exit code stay the same, and the original error is the new error's cause. A value that is not
 * an `MtlError` is returned unchanged.
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
 * Runs a file operation whose errors do not name the file, such as a write to a descriptor. If it throws a
 * system error (such as a full disk or a quota), the path is added at the beginning of the error's message;
 * the code stays the same.
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

import { packError, unpackError } from './error-message.js';
import { MtlError } from './mtl-error.js';

/**
 * The error in other words: those of its message, expectation and remedy, one after the other. Class, code,
 * details and exit status stay; the error itself is the cause of the new one. What is no `MtlError` is
 * returned as it is.
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

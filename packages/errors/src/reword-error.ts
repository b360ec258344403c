import { packError, unpackError } from './error-message.js';
import { MtlError } from './mtl-error.js';

/**
 * Returns the error in other words: `reword` is applied to its message, expectation and remedy, one after the
 * other. Class, code, details and exit status stay; the error itself is the cause of the new one. A value
 * that is no `MtlError` is returned unchanged.
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

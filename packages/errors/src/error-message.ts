import * as errorClasses from './mtl-error.js';
import { MtlError, type MtlErrorOptions } from './mtl-error.js';

const classes: Readonly<Record<string, typeof MtlError | undefined>> = errorClasses;

/**
 * An error in the form of a message from one thread to another. The error itself cannot be sent, because
 * cloning would drop its class and fields.
 */
export interface ErrorMessage extends Pick<MtlErrorOptions, 'expected' | 'remedy' | 'details' | 'exitCode'> {
  readonly name: string;
  readonly code: `MTL_${string}`;
  readonly message: string;
}

/**
 * Converts an error to a message for `postMessage`.
 *
 * @param unexpected the class and code of the message if the error has no code
 */
export function packError(error: unknown, unexpected: Pick<ErrorMessage, 'name' | 'code'>): ErrorMessage {
  if (!MtlError.isInstance(error)) {
    return {
      ...unexpected,
      message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    };
  }
  const { name, code, message, expected, remedy, details, exitCode } = error;
  return {
    name,
    code,
    message,
    details,
    exitCode,
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
  };
}

/** Converts a message back to the error. */
export function unpackError(
  { name, code, message, ...options }: ErrorMessage,
  { cause }: Pick<MtlErrorOptions, 'cause'> = {},
): MtlError {
  const ErrorClass = classes[name] ?? MtlError;
  return new ErrorClass(code, message, { ...options, cause });
}

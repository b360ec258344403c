import { DataError, MtlError } from '@mtl/errors';

/** An error on its way between threads (cloning would drop its class and fields). */
export interface ErrorMessage {
  readonly code: `MTL_${string}`;
  readonly message: string;
  readonly expected: string | undefined;
  readonly remedy: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
}

/** Packs an error for `postMessage`. */
export function packError(error: unknown): ErrorMessage {
  if (MtlError.isInstance(error)) {
    const { code, message, expected, remedy, details } = error;
    return { code, message, expected, remedy, details };
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'MTL_DATA_WORKER', message, expected: undefined, remedy: undefined, details: {} };
}

/** The error that was packed. */
export function unpackError({ code, message, expected, remedy, details }: ErrorMessage): DataError {
  return new DataError(code, message, {
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
    details,
  });
}

import { MtlError } from '@mtl/errors';

/** Returns the coded error that `body` must throw. */
export function catchError(body: () => unknown): MtlError {
  try {
    body();
  } catch (error) {
    if (MtlError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

/** Returns code and message of the coded error that `body` must throw. */
export function refusal(body: () => unknown): string {
  const { code, message } = catchError(body);
  return `${code}: ${message}`;
}

import { type ErrorMessage, packError } from '@mtl/errors';

/** Packs an error of a worker thread of this package; an unforeseen one is MTL_DATA_WORKER. */
export function packWorkerError(error: unknown): ErrorMessage {
  return packError(error, { name: 'DataError', code: 'MTL_DATA_WORKER' });
}

import { type Device, metaDeviceOf } from '@mtl/kernels';

const mebibyte = 1024 * 1024;

/** Rows of a matmul's output that a GPU's matrix units work on together, at most. */
const tileRows = 128;

export interface LogitRowsOptions {
  /** N: of all logits of a micro-batch. */
  readonly numRows: number;
  /** Of the logits of one row. */
  readonly bytesPerRow: number;
  /** Where the logits are. Default: `cpu`. */
  readonly device?: Device | undefined;
  /** Most bytes of logits at a time. Default 128 MiB, on a GPU 256. */
  readonly chunkBytes?: number | undefined;
}

/**
 * Every chunk reads and writes the float32 gradient of the whole vocabulary. On a GPU this takes as long as
 * the matmul of a small chunk.
 */
const defaultChunkBytes = (device: Device): number =>
  (metaDeviceOf(device) === 'meta-cuda' ? 256 : 128) * mebibyte;

/**
 * How many rows of logits exist at a time: all of them where they fit, otherwise chunks of about one size, of
 * whole tiles where at least one tile fits. A matmul of 1,171 rows takes as long as one of 1,280.
 */
export function logitRowsAtATime(options: LogitRowsOptions): number {
  const { numRows, bytesPerRow, device = 'cpu', chunkBytes = defaultChunkBytes(device) } = options;
  if (numRows * bytesPerRow <= chunkBytes) return numRows;
  const unit = chunkBytes < tileRows * bytesPerRow ? 1 : tileRows;
  const most = Math.max(1, Math.floor(chunkBytes / (unit * bytesPerRow))) * unit;
  const numChunks = Math.ceil(numRows / most);
  return Math.ceil(numRows / (numChunks * unit)) * unit;
}

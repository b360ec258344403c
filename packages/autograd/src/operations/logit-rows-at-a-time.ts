import type { Device } from '@mtl/kernels';
import { metaDeviceOf } from '@mtl/kernels/internal';

const mebibyte = 1024 * 1024;

/** Rows of a matmul's output that a GPU's matrix units work on together, at most. */
const tileRows = 128;

export interface LogitRowsOptions {
  /** N: of all logits of a micro-batch. */
  readonly numRows: number;
  /** Of the logits of one row. */
  readonly bytesPerRow: number;
  /** Of one row of what the logits are computed from. */
  readonly inputBytesPerRow: number;
  /** Where the logits are. Default: `cpu`. */
  readonly device?: Device | undefined;
  /**
   * Most bytes of logits at a time. Default 128 MiB; on a GPU 256 MiB, or as much as one layer keeps for
   * backward, up to 1 GiB.
   */
  readonly chunkBytes?: number | undefined;
}

/**
 * What a transformer layer keeps for backward, about, in multiples of its input: 34 bytes for each element of
 * 2 bytes without attention's (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
 * Transformer Models").
 */
const keptByLayer = 16;

/**
 * Every chunk reads and writes the float32 gradient of the whole vocabulary. On a GPU this takes as long as
 * the matmul of a small chunk. Larger chunks need more memory: about what a layer keeps is little where there
 * are several. Only shapes decide, so that every step and every rank with the same ones has the same bits.
 */
function defaultChunkBytes(device: Device, inputBytes: number): number {
  if (metaDeviceOf(device) !== 'meta-cuda') return 128 * mebibyte;
  return Math.min(Math.max(keptByLayer * inputBytes, 256 * mebibyte), 1024 * mebibyte);
}

/**
 * How many rows of logits exist at a time: all of them where they fit, otherwise chunks of about one size, of
 * whole tiles where at least one tile fits. A matmul of 1,171 rows takes as long as one of 1,280.
 */
export function logitRowsAtATime(options: LogitRowsOptions): number {
  const { numRows, bytesPerRow, inputBytesPerRow, device = 'cpu' } = options;
  const { chunkBytes = defaultChunkBytes(device, numRows * inputBytesPerRow) } = options;
  if (numRows * bytesPerRow <= chunkBytes) return numRows;
  const unit = chunkBytes < tileRows * bytesPerRow ? 1 : tileRows;
  const most = Math.max(1, Math.floor(chunkBytes / (unit * bytesPerRow))) * unit;
  const numChunks = Math.ceil(numRows / most);
  return Math.ceil(numRows / (numChunks * unit)) * unit;
}

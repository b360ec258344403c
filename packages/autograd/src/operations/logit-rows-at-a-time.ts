const defaultChunkBytes = 128 * 1024 * 1024;

/** Rows of a product's output that a GPU's matrix units work on together, at most. */
const tileRows = 128;

export interface LogitRowsOptions {
  /** N: of all logits of a micro-batch. */
  readonly numRows: number;
  /** Of the logits of one row. */
  readonly bytesPerRow: number;
  /** Most bytes of logits at a time. Default 128 MiB. */
  readonly chunkBytes?: number | undefined;
}

/**
 * How many rows of logits exist at a time: all of them where they fit, otherwise pieces of about one size, of
 * whole tiles where at least one tile fits. A product of 1,171 rows takes as long as one of 1,280.
 */
export function logitRowsAtATime(options: LogitRowsOptions): number {
  const { numRows, bytesPerRow, chunkBytes = defaultChunkBytes } = options;
  if (numRows * bytesPerRow <= chunkBytes) return numRows;
  const unit = chunkBytes < tileRows * bytesPerRow ? 1 : tileRows;
  const most = Math.max(1, Math.floor(chunkBytes / (unit * bytesPerRow))) * unit;
  const numChunks = Math.ceil(numRows / most);
  return Math.ceil(numRows / (numChunks * unit)) * unit;
}

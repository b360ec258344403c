import { type FileHandle, open } from 'node:fs/promises';
import { type MetricsRow, rowOfLine } from './metrics-row.js';

const newLine = 0x0a;

/** Bytes of the file that are held at once, unless a row is longer. */
const blockBytes = 1 << 20;

export interface ReadRowsOptions {
  readonly limit: number;
  /** Whether nothing is added to the last row any more. */
  readonly isOver: boolean;
}

/** A part of the file, from the start of a row on. */
interface Block {
  readonly bytes: Buffer;
  readonly isEnd: boolean;
}

/**
 * Reads a metrics.jsonl row by row while a training run appends to it. The last row stays where it is until
 * another one follows: an evaluation, or the loads of experts, may still be added to it or replaced.
 */
export class MetricsRows {
  readonly #path: string;
  readonly #blockBytes: number;
  /** The byte at which the next row begins. */
  #position = 0;
  #count = 0;

  constructor(path: string, { block = blockBytes }: { readonly block?: number } = {}) {
    this.#path = path;
    this.#blockBytes = block;
  }

  /** Rows that have been read. */
  get count(): number {
    return this.#count;
  }

  /** The next rows, `limit` at most; none where the file has no more of them yet, or does not exist. */
  async read({ limit, isOver }: ReadRowsOptions): Promise<MetricsRow[]> {
    let file: FileHandle;
    try {
      file = await open(this.#path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
    try {
      for (let size = this.#blockBytes; ; size *= 2) {
        const block = await readBlock(file, { position: this.#position, size });
        const { rows, numBytes } = rowsOf(block, { limit, isOver });
        if (rows.length === 0 && !block.isEnd) continue; // a row that is longer than the block
        this.#position += numBytes;
        this.#count += rows.length;
        return rows;
      }
    } finally {
      await file.close();
    }
  }

  /** Passes over rows, fewer at the end of the file; the number of them. */
  async skip(numRows: number): Promise<number> {
    let skipped = 0;
    while (skipped < numRows) {
      const rows = await this.read({ limit: numRows - skipped, isOver: true });
      if (rows.length === 0) break;
      skipped += rows.length;
    }
    return skipped;
  }
}

async function readBlock(
  file: FileHandle,
  { position, size }: { readonly position: number; readonly size: number },
): Promise<Block> {
  const buffer = Buffer.allocUnsafe(size);
  const { bytesRead } = await file.read(buffer, 0, size, position);
  return { bytes: buffer.subarray(0, bytesRead), isEnd: bytesRead < size };
}

/** The whole rows of a block, and how many bytes they take. */
function rowsOf({ bytes, isEnd }: Block, { limit, isOver }: ReadRowsOptions) {
  const rows: MetricsRow[] = [];
  let last: MetricsRow | undefined;
  let numBytes = 0;
  for (let start = 0; rows.length < limit; ) {
    const end = bytes.indexOf(newLine, start);
    if (end < 0) {
      if (isEnd && isOver && last !== undefined) {
        rows.push(last);
        numBytes = start;
      }
      break;
    }
    const found = rowOfLine(bytes.toString('utf8', start, end));
    if (found !== undefined) {
      const { isAddition, ...row } = found;
      if (isAddition && last?.iteration === row.iteration) {
        last = { ...last, values: { ...last.values, ...row.values } };
      } else {
        if (last !== undefined) {
          rows.push(last);
          numBytes = start;
        }
        last = row;
      }
    }
    start = end + 1;
  }
  return { rows, numBytes };
}

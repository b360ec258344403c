import { type FileHandle, open } from 'node:fs/promises';
import { expertScalars } from '../expert-scalars.js';

const newLine = 0x0a;

/** How many bytes of the file are in memory at most. A longer row takes more. */
const blockBytes = 1 << 20;

interface ReadRowsOptions {
  readonly limit: number;
  /** True if the last row is complete, because nothing more will be added to the file. */
  readonly isOver: boolean;
}

/** A part of the file that begins at the start of a row. */
interface Block {
  readonly bytes: Buffer;
  readonly isEnd: boolean;
}

/**
 * Reads a metrics.jsonl row by row while a training run appends to it. The last row is returned only once
 * another row follows, because until then, an evaluation or expert loads may still be added to it, or
 * replaced.
 */
export class MetricsRows {
  readonly #path: string;
  readonly #blockBytes: number;
  /** The byte offset in the file at which the next row begins. */
  #position = 0;
  #count = 0;

  constructor(path: string, { block = blockBytes }: { readonly block?: number } = {}) {
    this.#path = path;
    this.#blockBytes = block;
  }

  /** Number of rows that have been read. */
  get count(): number {
    return this.#count;
  }

  /**
   * Reads the next rows, at most `limit`. Returns no rows if the file does not exist or has no further rows
   * yet.
   */
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
        const { rows, numBytes } = parseRows(block, { limit, isOver });
        if (rows.length === 0 && !block.isEnd) continue; // a row that is longer than the block
        this.#position += numBytes;
        this.#count += rows.length;
        return rows;
      }
    } finally {
      await file.close();
    }
  }

  /** Skips `numRows` rows. Returns the number of skipped rows, which is smaller if the file ends earlier. */
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

/** Returns the complete rows of a block, and the number of bytes that they occupy. */
function parseRows({ bytes, isEnd }: Block, { limit, isOver }: ReadRowsOptions) {
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

/**
 * The values of one step for tracking services: the step's metrics, and the metrics of an evaluation and of
 * experts that follow the step.
 */
export interface MetricsRow {
  readonly iteration: number;
  /** The time at which the step's record was written, in milliseconds since 1970. */
  readonly time: number;
  /** Values under Megatron-LM's names, as in TensorBoard. */
  readonly values: Readonly<Record<string, number>>;
}

/** Megatron-LM's names for keys in metrics.jsonl, if the names differ in more than underscores. */
const namesOfKeys: Readonly<Record<string, string>> = {
  consumed_samples: 'samples vs steps',
  consumed_tokens: 'consumed-tokens',
  decoupled_learning_rate: 'decoupled-learning-rate',
  grad_norm: 'grad-norm',
  learning_rate: 'learning-rate',
  loss_scale: 'loss-scale',
  model_tflops: 'throughput',
  peak_bytes: 'mem-max-allocated-bytes',
  step_ms: 'iteration-time',
  tokens_per_s: 'tokens-per-second',
};

/** Returns true if a metrics.jsonl record is part of a row. Records of all other types are skipped. */
function isPartOfRow(
  record: unknown,
): record is { type?: 'validation' | 'experts'; iteration: number; time?: unknown } {
  if (typeof record !== 'object' || record === null) return false;
  const { type, iteration } = record as { type?: unknown; iteration?: unknown };
  return Number.isInteger(iteration) && (type === undefined || type === 'validation' || type === 'experts');
}

/**
 * Returns the row for `line` in metrics.jsonl; undefined for an invalid line or a line of a type that is not
 * sent. `isAddition` is true if the line belongs to a step that an earlier line has begun.
 */
function rowOfLine(line: string): (MetricsRow & { readonly isAddition: boolean }) | undefined {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    return undefined; // incomplete, because the process was killed while writing it
  }
  if (!isPartOfRow(record)) return undefined;
  const { type, iteration, time, ...others } = record;
  const milliseconds = Date.parse(String(time));
  const row = { iteration, time: Number.isNaN(milliseconds) ? 0 : milliseconds };
  if (type === 'experts') {
    const scalars = expertScalars(others).map(({ name, value }) => [name, value] as const);
    return { ...row, values: Object.fromEntries(scalars), isAddition: true };
  }
  const isValidation = type === 'validation';
  const values: Record<string, number> = {};
  for (const [key, value] of Object.entries(others)) {
    // null means that the value was not finite
    if (typeof value !== 'number') continue;
    const name = namesOfKeys[key] ?? key.replaceAll('_', ' ');
    // Megatron-LM reports this time in seconds
    values[isValidation ? `${name} validation` : name] = key === 'step_ms' ? value / 1000 : value;
  }
  return { ...row, values, isAddition: isValidation };
}

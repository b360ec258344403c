// In the shapes below, B is the number of samples in a micro-batch, S the sequence length, and T the number
// of rows after packing, one row per token.

/** The size of a padded micro-batch. */
export interface PaddedSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** int32 [B]: how many tokens each sample has before its padding. */
  readonly lengths: Int32Array;
}

/** How many different values T can have for micro-batches with the same padded size. */
const maximumShapes = 32;
const rowMultiple = 8;

/**
 * Returns the number of rows T of a packed micro-batch: its token count, rounded up to limit the number of
 * shapes to 32, because matmuls are prepared once for each shape. This adds at most 1/32 of the padded size
 * plus 8 rows. The result is also a multiple of `divisor`, so that rows can be sharded.
 */
export function numPackedRows({ batchSize, sequenceLength, lengths }: PaddedSize, divisor: number): number {
  const padded = batchSize * sequenceLength;
  const numTokens = lengths.reduce((sum, length) => sum + length, 0);
  const step = rowMultiple * Math.ceil(padded / maximumShapes / rowMultiple);
  const rounded = Math.min(padded, step * Math.ceil(numTokens / step));
  return divisor * Math.ceil(rounded / divisor);
}

/**
 * The packed layout of a padded micro-batch [S, B]: its tokens are stored in T rows, one sample after
 * another.
 */
export class SamplePacking {
  readonly numRows: number;
  /**
   * int32 [B + 1]: sample b has the rows from starts[b] to starts[b + 1], exclusive. The rows from starts[B]
   * on are unused.
   */
  readonly starts: Int32Array;
  /** int32 [T]: each row's position within its sample; 0 in unused rows. */
  readonly positions: Int32Array;
  /** int32 [T]: the index of each row's sample, 0 to B - 1; 0 in unused rows. */
  readonly rowSamples: Int32Array;
  readonly longest: number;
  /** The number of attention scores per head: the sum of the squared lengths. */
  readonly numScores: number;

  /** @param divisor the number of ranks that share the rows */
  constructor(size: PaddedSize, divisor = 1) {
    const { batchSize, lengths } = size;
    this.numRows = numPackedRows(size, divisor);
    this.starts = new Int32Array(batchSize + 1);
    this.positions = new Int32Array(this.numRows);
    this.rowSamples = new Int32Array(this.numRows);
    lengths.forEach((length, sample) => {
      const start = this.starts[sample]!;
      this.starts[sample + 1] = start + length;
      this.rowSamples.fill(sample, start, start + length);
      for (let position = 0; position < length; position++) this.positions[start + position] = position;
    });
    this.longest = lengths.reduce((longest, length) => Math.max(longest, length), 0);
    this.numScores = lengths.reduce((sum, length) => sum + length * length, 0);
  }

  /** Packs one value per token from [S, B] into int32 [T], with 0 in unused rows. */
  packed(values: Int32Array): Int32Array {
    const batchSize = this.starts.length - 1;
    const result = new Int32Array(this.numRows);
    const numTokens = this.starts[batchSize]!;
    for (let row = 0; row < numTokens; row++) {
      result[row] = values[this.positions[row]! * batchSize + this.rowSamples[row]!]!;
    }
    return result;
  }
}

import { UsageError } from '@mtl/errors';
import type { TaskTokenBatch } from '@mtl/layout';
import { sharedFloat64Array, sharedInt32Array } from '../files/typed-arrays.js';
import { assembleBatch, type SampleDataset } from './sample-dataset.js';

// In the shapes below, N is the number of samples, and C the number of choices per sample.

/** A fine-tuning dataset as plain data in shared memory. */
export interface TaskDatasetDescription {
  readonly kind: 'task';
  readonly sequenceLength: number;
  readonly numChoices: number;
  /** The padding token. */
  readonly padding: number;
  /** int32: the tokens of all sequences, concatenated. Choice c of sample n is sequence `n * C + c`. */
  readonly tokens: Int32Array;
  /**
   * float64 [N * C + 1]: the index in `tokens` at which each sequence starts, followed by the end of the last
   * sequence.
   */
  readonly offsets: Float64Array;
  /** int32 [N * C]: how many tokens each sequence has up to and including its first `[SEP]`. */
  readonly firstLengths: Int32Array;
  /** int32 [N]: the label of each sample. */
  readonly labels: Int32Array | undefined;
  /** int32 [N]: the position of each answer's first token. */
  readonly startPositions: Int32Array | undefined;
  /** int32 [N]: the position of each answer's last token. */
  readonly endPositions: Int32Array | undefined;
}

/**
 * A dataset of sentence pairs, multiple choice or answer spans. The encode functions have already encoded its
 * samples. Data loaders and samplers accept it like a pretraining dataset.
 */
export class TaskDataset implements SampleDataset<TaskTokenBatch> {
  readonly description: TaskDatasetDescription;

  constructor(description: TaskDatasetDescription) {
    this.description = description;
  }

  get length(): number {
    const { firstLengths, numChoices } = this.description;
    return firstLengths.length / numChoices;
  }

  get sequenceLength(): number {
    return this.description.sequenceLength;
  }

  createBatch(batchSize: number): TaskTokenBatch {
    const { sequenceLength, numChoices, padding, labels, startPositions } = this.description;
    const targets = { labels: labels !== undefined, positions: startPositions !== undefined };
    return createTaskTokenBatch({ batchSize, sequenceLength, numChoices, padding, targets });
  }

  fillRow(options: { readonly sample: number; readonly batch: TaskTokenBatch; readonly row: number }): void {
    const { sample, batch, row } = options;
    if (!Number.isInteger(sample) || sample < 0 || sample >= this.length) {
      throw new UsageError('MTL_DATA_OUT_OF_RANGE', `sample ${sample} does not exist`, {
        expected: `0 to ${this.length - 1}`,
      });
    }
    const { numChoices, tokens, offsets, firstLengths, labels, startPositions, endPositions } =
      this.description;
    const rows = batch.batchSize * numChoices;
    for (let choice = 0; choice < numChoices; choice++) {
      const sequence = sample * numChoices + choice;
      const batchRow = row * numChoices + choice;
      const start = offsets[sequence]!;
      const length = offsets[sequence + 1]! - start;
      const firstLength = firstLengths[sequence]!;
      for (let s = 0; s < length; s++) {
        batch.tokens[s * rows + batchRow] = tokens[start + s]!;
        batch.tokenTypes[s * rows + batchRow] = s < firstLength ? 0 : 1;
      }
      batch.lengths[batchRow] = length;
    }
    if (labels !== undefined) batch.labels![row] = labels[sample]!;
    if (startPositions !== undefined) batch.startPositions![row] = startPositions[sample]!;
    if (endPositions !== undefined) batch.endPositions![row] = endPositions[sample]!;
    batch.sampleNumbers[row] = sample;
  }

  finishBatch(batch: TaskTokenBatch): TaskTokenBatch {
    return batch;
  }

  sample(sample: number): TaskTokenBatch {
    return assembleBatch(this, [sample]);
  }

  /** Does nothing, because no file is open. */
  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }
}

/** True for each group of optional arrays that the dataset's batches have. */
interface TaskTargets {
  readonly labels: boolean;
  readonly positions: boolean;
}

/** Returns a batch that contains only padding. */
function createTaskTokenBatch(options: {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly numChoices: number;
  readonly padding: number;
  readonly targets: TaskTargets;
}): TaskTokenBatch {
  const { batchSize, sequenceLength, numChoices, padding, targets } = options;
  const rows = batchSize * numChoices;
  return {
    batchSize,
    sequenceLength,
    numChoices,
    tokens: new Int32Array(rows * sequenceLength).fill(padding),
    tokenTypes: new Int32Array(rows * sequenceLength),
    lengths: new Int32Array(rows),
    labels: targets.labels ? new Int32Array(batchSize) : undefined,
    startPositions: targets.positions ? new Int32Array(batchSize) : undefined,
    endPositions: targets.positions ? new Int32Array(batchSize) : undefined,
    sampleNumbers: new Float64Array(batchSize),
  };
}

/** Collects encoded sequences and then packs them into shared memory. */
export class TaskSequences {
  // When the array is full, its size is doubled. A list of numbers would take three times as much memory.
  #tokens = new Int32Array(1 << 12);
  #numTokens = 0;
  readonly #offsets: number[] = [0];
  readonly #firstLengths: number[] = [];

  /** Appends a sequence. Its first `firstLength` tokens have token type 0. */
  add({ tokens, firstLength }: { readonly tokens: ArrayLike<number>; readonly firstLength: number }): void {
    const end = this.#numTokens + tokens.length;
    if (end > this.#tokens.length) {
      const grown = new Int32Array(Math.max(end, 2 * this.#tokens.length));
      grown.set(this.#tokens);
      this.#tokens = grown;
    }
    this.#tokens.set(tokens, this.#numTokens);
    this.#numTokens = end;
    this.#offsets.push(end);
    this.#firstLengths.push(firstLength);
  }

  /** Returns the arrays of a dataset's description. */
  pack(): Pick<TaskDatasetDescription, 'tokens' | 'offsets' | 'firstLengths'> {
    const tokens = sharedInt32Array(this.#numTokens);
    tokens.set(this.#tokens.subarray(0, this.#numTokens));
    const offsets = sharedFloat64Array(this.#offsets.length);
    offsets.set(this.#offsets);
    return { tokens, offsets, firstLengths: sharedCopy(this.#firstLengths) };
  }
}

/** Returns the given values as an int32 array in shared memory. */
export function sharedCopy(values: readonly number[]): Int32Array {
  const result = sharedInt32Array(values.length);
  result.set(values);
  return result;
}

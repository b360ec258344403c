import { UsageError } from '@mtl/errors';
import { assembleBatch, type SampleDataset } from '../samples/sample-dataset.js';
import { createTaskTokenBatch, type TaskTokenBatch } from './task-token-batch.js';

// N = samples, C = choices of each.

/** A fine-tuning dataset as plain data over shared memory. */
export interface TaskDatasetDescription {
  readonly kind: 'task';
  readonly sequenceLength: number;
  readonly numChoices: number;
  /** The padding token. */
  readonly padding: number;
  /** int32: the tokens of all sequences (choice c of sample n is sequence n x C + c), one behind another. */
  readonly tokens: Int32Array;
  /** float64 [N x C + 1]: where each sequence starts in `tokens`, and the end. */
  readonly offsets: Float64Array;
  /** int32 [N x C]: tokens of each sequence up to and with its first `[SEP]`. */
  readonly firstLengths: Int32Array;
  /** int32 [N]. */
  readonly labels: Int32Array | undefined;
  /** int32 [N]. */
  readonly startPositions: Int32Array | undefined;
  /** int32 [N]. */
  readonly endPositions: Int32Array | undefined;
}

/**
 * Samples of sentence pairs, multiple choice or spans, encoded beforehand; the encode functions make it.
 * Loaders and samplers take it as they take the datasets of pretraining.
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

  /** Nothing is open. */
  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }
}

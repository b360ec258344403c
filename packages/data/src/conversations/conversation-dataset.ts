import { UsageError } from '@mtl/errors';
import type { TokenBatch } from '@mtl/layout';
import {
  assembleBatch,
  createTokenBatch,
  type SampleDataset,
  type SampleDocuments,
} from '../samples/sample-dataset.js';

// N: number of conversations. R: number of rows that contain them.

/** Conversations packed into rows, as plain data over shared memory. */
export interface PackedConversations {
  readonly sequenceLength: number;
  /** int32: the tokens of all conversations, concatenated. */
  readonly tokens: Int32Array;
  /** A value for each token: 1 if the token is learnt, else 0. */
  readonly isLearnt: Uint8Array;
  /**
   * float64 [N + 1]: the index in `tokens` of each conversation's start, and the end of the last
   * conversation.
   */
  readonly offsets: Float64Array;
  /** int32 [N]: the indices of the conversations, sorted by row. */
  readonly order: Int32Array;
  /** int32 [R + 1]: the index in `order` of each row's start, and the end of the last row. */
  readonly rowOffsets: Int32Array;
}

/** Packed conversations in a form that worker threads can receive. */
export interface ConversationDatasetDescription extends PackedConversations {
  readonly kind: 'conversations';
  /** The number of samples: the rows, padded with empty rows to a multiple of the batch size. */
  readonly numSamples: number;
}

/**
 * Conversations packed into samples of equal length. A conversation of n tokens takes n - 1 positions,
 * counted from 0, and cannot attend to other conversations. A position counts in the loss if its next token
 * is learnt. Data loaders and samplers accept this dataset like a pretraining dataset.
 */
export class ConversationDataset implements SampleDataset {
  readonly description: ConversationDatasetDescription;

  constructor(description: ConversationDatasetDescription) {
    this.description = description;
  }

  get length(): number {
    return this.description.numSamples;
  }

  get sequenceLength(): number {
    return this.description.sequenceLength;
  }

  createBatch(batchSize: number): TokenBatch {
    return createTokenBatch({ batchSize, sequenceLength: this.sequenceLength, withKeyStart: true });
  }

  fillRow(options: { readonly sample: number; readonly batch: TokenBatch; readonly row: number }): void {
    const { sample, batch, row } = options;
    if (!Number.isInteger(sample) || sample < 0 || sample >= this.length) {
      throw new UsageError('MTL_DATA_OUT_OF_RANGE', `sample ${sample} does not exist`, {
        expected: `0 to ${this.length - 1}`,
      });
    }
    const { order, rowOffsets, sequenceLength } = this.description;
    const conversations = order.subarray(rowOffsets[sample] ?? 0, rowOffsets[sample + 1] ?? 0);
    let filled = 0;
    for (const conversation of conversations) {
      filled += this.#fillConversation({ conversation, batch, row, start: filled });
    }
    // the unused end of the row is treated as a separate document without learnt tokens
    for (let position = filled; position < sequenceLength; position++) {
      batch.positionIds[position * batch.batchSize + row] = position - filled;
      batch.keyStart![row * sequenceLength + position] = filled;
    }
    batch.sampleNumbers[row] = sample;
  }

  finishBatch(batch: TokenBatch): TokenBatch {
    return batch;
  }

  sample(sample: number): TokenBatch {
    return assembleBatch(this, [sample]);
  }

  /** Returns the indices of the sample's conversations within this dataset. */
  listDocuments(sample: number): SampleDocuments {
    const { order, rowOffsets } = this.description;
    const conversations = order.subarray(rowOffsets[sample] ?? 0, rowOffsets[sample + 1] ?? 0);
    return { source: 'conversations', documents: [...conversations] };
  }

  /** Does nothing, because no file is open. */
  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }

  /** Writes a conversation to a row, starting at position `start`; returns the number of positions used. */
  #fillConversation(place: {
    readonly conversation: number;
    readonly batch: TokenBatch;
    readonly row: number;
    readonly start: number;
  }): number {
    const { conversation, batch, row, start } = place;
    const { tokens, isLearnt, offsets, sequenceLength } = this.description;
    const first = offsets[conversation]!;
    const length = offsets[conversation + 1]! - first - 1;
    for (let position = 0; position < length; position++) {
      const to = (start + position) * batch.batchSize + row;
      batch.tokens[to] = tokens[first + position]!;
      batch.labels[to] = tokens[first + position + 1]!;
      batch.lossMask[to] = isLearnt[first + position + 1]!;
      batch.positionIds[to] = position;
      batch.keyStart![row * sequenceLength + start + position] = start;
    }
    return length;
  }
}

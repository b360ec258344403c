import type { MaskedTokenBatch } from '@mtl/layout';

/**
 * A batch whose rows are still being filled. Its arrays have room for the maximum number of masked tokens.
 */
export type MaskedTokenBatchDraft = { -readonly [K in keyof MaskedTokenBatch]: MaskedTokenBatch[K] };

/** Creates a batch that contains only padding, with room for `maximumMasked` masked tokens. */
export function createMaskedTokenBatch(options: {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly maximumMasked: number;
  readonly padding: number;
  readonly withSentenceOrder: boolean;
}): MaskedTokenBatchDraft {
  const { batchSize, sequenceLength, maximumMasked, padding, withSentenceOrder } = options;
  const elements = batchSize * sequenceLength;
  return {
    batchSize,
    sequenceLength,
    tokens: new Int32Array(elements).fill(padding),
    tokenTypes: new Int32Array(elements),
    lengths: new Int32Array(batchSize),
    maskedPositions: new Int32Array(maximumMasked),
    maskedLabels: new Int32Array(maximumMasked),
    maskedWeights: new Float32Array(maximumMasked),
    numMasked: 0,
    sentenceOrderLabels: withSentenceOrder ? new Int32Array(batchSize) : undefined,
    sampleNumbers: new Float64Array(batchSize),
  };
}

/** The number of special tokens in a sample: `[CLS]` and two `[SEP]`. */
export const numSpecialTokens = 3;

// How many different sizes M (room for masked tokens) batches can have. The sizes are spaced evenly up to the
// maximum.
const ladderSteps = 8;

interface MaskedSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** The share of tokens that are masked. */
  readonly probability: number;
}

/** Returns the maximum number of masked tokens that a batch can have. */
export function mostMasked({ batchSize, sequenceLength, probability }: MaskedSize): number {
  return batchSize * Math.max(1, Math.floor(probability * (sequenceLength - numSpecialTokens)));
}

/**
 * Returns the largest size M (room for masked tokens) that a batch can have. A batch has this size if all its
 * samples fill their sequences.
 */
export function mostRoomForMasked(size: MaskedSize): number {
  return roomFor(mostMasked(size), mostMasked(size));
}

/**
 * Returns the smallest size with room for `numMasked` tokens, out of eight sizes (multiples of eight) up to
 * `maximum`.
 */
function roomFor(numMasked: number, maximum: number): number {
  const step = 8 * Math.max(1, Math.ceil(maximum / ladderSteps / 8));
  return step * Math.max(1, Math.ceil(numMasked / step));
}

/**
 * Reduces a batch's room for masked tokens to one of eight sizes, so that a run has few tensor shapes. The
 * wasted computation is at most an eighth of the largest size.
 */
export function trimMaskedTokens(batch: MaskedTokenBatchDraft): MaskedTokenBatch {
  const { numMasked } = batch;
  const room = roomFor(numMasked, batch.maskedPositions.length);
  const resized = <A extends Int32Array | Float32Array>(values: A): A => {
    const result = new (values.constructor as new (length: number) => A)(room);
    result.set(values.subarray(0, numMasked));
    return result;
  };
  return {
    ...batch,
    maskedPositions: resized(batch.maskedPositions),
    maskedLabels: resized(batch.maskedLabels),
    maskedWeights: resized(batch.maskedWeights),
  };
}

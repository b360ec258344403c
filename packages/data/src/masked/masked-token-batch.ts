import type { MaskedTokenBatch } from '@mtl/layout';

/** A batch while its rows are being filled: room for all masked tokens that it could have. */
export type MaskedTokenBatchDraft = { -readonly [K in keyof MaskedTokenBatch]: MaskedTokenBatch[K] };

/** Returns an empty batch of padding, with room for `maximumMasked` masked tokens. */
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

/** Number of special tokens in a sample: `[CLS]` and two `[SEP]`. */
export const numSpecialTokens = 3;

// Number of sizes of the masked tokens of a batch, evenly spaced up to the most that a batch can hold.
const ladderSteps = 8;

interface MaskedSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** Share of the tokens that are masked. */
  readonly probability: number;
}

/** Returns the largest number of tokens that are masked in a batch. */
export function mostMasked({ batchSize, sequenceLength, probability }: MaskedSize): number {
  return batchSize * Math.max(1, Math.floor(probability * (sequenceLength - numSpecialTokens)));
}

/**
 * Returns the largest M (room for masked tokens) of any batch, reached by samples that fill their sequences.
 */
export function mostRoomForMasked(size: MaskedSize): number {
  return roomFor(mostMasked(size), mostMasked(size));
}

/** Returns the smallest of eight steps (multiples of eight) up to `maximum` that holds `numMasked` tokens. */
function roomFor(numMasked: number, maximum: number): number {
  const step = 8 * Math.max(1, Math.ceil(maximum / ladderSteps / 8));
  return step * Math.max(1, Math.ceil(numMasked / step));
}

/**
 * Truncates the masked tokens to one of few sizes, so that a run sees few shapes. The wasted computation is
 * at most an eighth of the largest size.
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

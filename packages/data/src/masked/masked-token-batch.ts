// B = samples of a micro-batch, S = sequence length, M = room for masked tokens.

/**
 * A micro-batch for a masked language model with a sentence-order head. Tokens lie sequence first, as
 * activations do: token s of row b has the flat index s x B + b.
 */
export interface MaskedTokenBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** int32 [S, B]: `[CLS] A [SEP] B [SEP]` with masks, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: 0 up to the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /**
   * int32 [B]: tokens of each row before its padding, which is only at the end. They attend to each
   * other, a random replacement by `[PAD]` too: only the padding mask of `megatronSample` leaves it out.
   */
  readonly lengths: Int32Array;
  /**
   * int32 [M]: flat indices into [S, B] of the tokens to predict, row after row and ascending in each; the
   * first `numMasked` count. M is one of eight sizes, so that shapes do not change from step to step.
   */
  readonly maskedPositions: Int32Array;
  /** int32 [M]: what stood there before masking; 0 where unused. */
  readonly maskedLabels: Int32Array;
  /** float32 [M]: 1, and 0 where unused (position 0). */
  readonly maskedWeights: Float32Array;
  /** Number of the M that count in the loss. */
  readonly numMasked: number;
  /** int32 [B]: 1 where A and B were swapped, else 0; undefined when the dataset has no sentence pairs. */
  readonly sentenceOrderLabels: Int32Array | undefined;
  /** Exact integers [B]: which samples of the dataset these are; random masks of dropout depend on them. */
  readonly sampleNumbers: Float64Array;
}

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

/** `[CLS]` and two of `[SEP]`. */
export const numSpecialTokens = 3;

// Steps from nothing to the most masked tokens that a batch can hold.
const ladderSteps = 8;

interface MaskedSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** Share of the tokens that is masked. */
  readonly probability: number;
}

/** Returns the largest number of tokens that are masked in a batch. */
export function mostMasked({ batchSize, sequenceLength, probability }: MaskedSize): number {
  return batchSize * Math.max(1, Math.floor(probability * (sequenceLength - numSpecialTokens)));
}

/** Returns the largest M that a batch can have: that of samples which fill their sequences. */
export function mostRoomForMasked(size: MaskedSize): number {
  return roomFor(mostMasked(size), mostMasked(size));
}

/**
 * Returns the lowest of eight steps (multiples of eight) up to `maximum` that holds so many masked tokens.
 */
function roomFor(numMasked: number, maximum: number): number {
  const step = 8 * Math.max(1, Math.ceil(maximum / ladderSteps / 8));
  return step * Math.max(1, Math.ceil(numMasked / step));
}

/**
 * Truncates the masked tokens to one of few sizes, so that a run sees few shapes and computes at most an
 * eighth of the largest one for nothing.
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

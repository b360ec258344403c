// B = samples of a micro-batch, S = sequence length, M = room for masked tokens.

/**
 * A micro-batch for a masked language model with a sentence-order head. Tokens lie sequence first, as activations do:
 * token s of row b has the flat index s x B + b.
 */
export interface MaskedTokenBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** int32 [S, B]: `[CLS] A [SEP] B [SEP]` with masks, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: 0 up to the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /** int32 [B]: tokens of each row before its padding, which only stands at the end. */
  readonly lengths: Int32Array;
  /**
   * int32 [M]: flat indices into [S, B] of the tokens to predict, row after row and ascending in each; the first
   * `numMasked` count. M comes from a ladder of few sizes, so that shapes do not change from step to step.
   */
  readonly maskedPositions: Int32Array;
  /** int32 [M]: what stood there before masking; 0 where unused. */
  readonly maskedLabels: Int32Array;
  /** float32 [M]: 1, and 0 where unused (position 0). */
  readonly maskedWeights: Float32Array;
  /** How many of the M count in the loss. */
  readonly numMasked: number;
  /** int32 [B]: 1 where A and B were swapped, else 0; undefined when the dataset has no sentence pairs. */
  readonly sentenceOrderLabels: Int32Array | undefined;
  /** Exact integers [B]: which samples of the dataset these are; random masks of dropout depend on them. */
  readonly sampleNumbers: Float64Array;
}

// B: samples of a micro-batch. S: sequence length. M: room for masked tokens. C: choices per sample (1 except
// for multiple choice). R = B x C: rows. Arrays [S, B] are sequence first, like activations: token s of row b
// has the flat index s x B + b.

/** Properties of every kind of micro-batch. */
export interface NumberedBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /**
   * [B], exact integers: the numbers of the samples in the dataset, from which dropout masks are computed.
   */
  readonly sampleNumbers: Float64Array;
}

/**
 * The fields of a micro-batch that a pipeline stage without tokens needs. All sequences have the same length,
 * as in activations [S, B].
 */
export interface SequencesOfBatch extends NumberedBatch {
  /**
   * int32 [B, S], row-major: for each position, the first position that it may attend to (the start of its
   * document). It replaces Megatron's block-diagonal S x S mask. Undefined: attention starts at the beginning
   * of the sequence.
   */
  readonly keyStart: Int32Array | undefined;
}

/** A micro-batch (or one sample, B = 1) on the host, for a language model. */
export interface TokenBatch extends SequencesOfBatch {
  /** int32 [S, B]: inputs. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: the token after each input. */
  readonly labels: Int32Array;
  /**
   * float32 [S, B]: 1 where the label counts in the loss, else 0 (padding, tokens after a document's end).
   */
  readonly lossMask: Float32Array;
  /** int32 [S, B]: the position of each token in its document or sequence. */
  readonly positionIds: Int32Array;
}

/** A micro-batch for a masked language model with a sentence-order head. */
export interface MaskedTokenBatch extends NumberedBatch {
  /** int32 [S, B]: `[CLS] A [SEP] B [SEP]` with masks, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: 0 up to the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /**
   * int32 [B]: the number of tokens in each row before its padding, which is only at the end. These tokens
   * attend to each other, including a token that was randomly replaced by `[PAD]`; Megatron's padding mask
   * would hide such a token.
   */
  readonly lengths: Int32Array;
  /**
   * int32 [M]: flat indices into [S, B] of the tokens to predict, sorted by row and then by position. Only
   * the first `numMasked` entries are used. M is one of eight sizes, so that shapes rarely change from step
   * to step.
   */
  readonly maskedPositions: Int32Array;
  /** int32 [M]: the original tokens; 0 in unused entries. */
  readonly maskedLabels: Int32Array;
  /** float32 [M]: 1 in used entries, 0 in unused entries (whose position is 0). */
  readonly maskedWeights: Float32Array;
  /** The number of masked tokens that count in the loss, at most M. */
  readonly numMasked: number;
  /**
   * int32 [B]: 1 if the texts A and B were swapped, else 0; undefined if the dataset has no sentence pairs.
   */
  readonly sentenceOrderLabels: Int32Array | undefined;
}

/** A micro-batch of a fine-tuning task. Choice c of sample b is row b x C + c. */
export interface TaskTokenBatch extends NumberedBatch {
  readonly numChoices: number;
  /** int32 [S, R]: `[CLS] A [SEP] B [SEP]`, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, R]: 0 up to the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /** int32 [R]: the number of tokens in each row before its padding, which is only at the end. */
  readonly lengths: Int32Array;
  /**
   * int32 [B]: the class, or the index of the right choice; undefined for spans and for data without labels.
   */
  readonly labels: Int32Array | undefined;
  /**
   * int32 [B]: the position in S of the answer's first token; 0 (`[CLS]`) if the window does not contain the
   * answer. Only for spans.
   */
  readonly startPositions: Int32Array | undefined;
  /** int32 [B]: the position in S of the answer's last token. Only for spans. */
  readonly endPositions: Int32Array | undefined;
}

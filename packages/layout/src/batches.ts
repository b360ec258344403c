// In the shapes below, B is the number of samples in a micro-batch, S the sequence length, M the number of
// entries for masked tokens, C the number of choices per sample (1 except for multiple choice), and R = B * C
// the number of rows. Arrays [S, B] are sequence first, like activations: token s of row b has the flat index
// `s * B + b`.

/** Properties of every kind of micro-batch. */
export interface NumberedBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /**
   * [B], exact integers: the indices of the samples in the dataset, from which dropout masks are computed.
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
   * document). It replaces Megatron's block-diagonal S x S mask. If it is undefined, every position may
   * attend to the beginning of the sequence.
   */
  readonly keyStart: Int32Array | undefined;
}

/** A micro-batch on the host for a language model, or a single sample (B = 1). */
export interface TokenBatch extends SequencesOfBatch {
  /** int32 [S, B]: inputs. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: the token that follows each input token. */
  readonly labels: Int32Array;
  /**
   * float32 [S, B]: 1 where the label counts in the loss, else 0 (for padding and for tokens after a
   * document's end).
   */
  readonly lossMask: Float32Array;
  /** int32 [S, B]: the position of each token in its document or sequence. */
  readonly positionIds: Int32Array;
}

/** A micro-batch for a masked language model with a sentence-order head. */
export interface MaskedTokenBatch extends NumberedBatch {
  /** int32 [S, B]: `[CLS] A [SEP] B [SEP]` with masks, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: 0 up to and including the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /**
   * int32 [B]: how many tokens each row has before its padding, which is only at the end. These tokens attend
   * to each other, including a token that was randomly replaced by `[PAD]`; Megatron's padding mask would
   * hide such a token.
   */
  readonly lengths: Int32Array;
  /**
   * int32 [M]: the tokens to predict, as flat indices into [S, B], sorted by row and then by position. Only
   * the first `numMasked` entries are used. M is one of eight sizes, so that shapes rarely change from step
   * to step.
   */
  readonly maskedPositions: Int32Array;
  /** int32 [M]: the original tokens; 0 in unused entries. */
  readonly maskedLabels: Int32Array;
  /** float32 [M]: 1 in used entries, 0 in unused entries (whose `maskedPositions` entry is 0). */
  readonly maskedWeights: Float32Array;
  /** The number of masked tokens that count in the loss, at most M. */
  readonly numMasked: number;
  /**
   * int32 [B]: 1 if the texts A and B were swapped, else 0; undefined if the dataset has no sentence pairs.
   */
  readonly sentenceOrderLabels: Int32Array | undefined;
}

/** A micro-batch of a fine-tuning task. Choice c of sample b is row `b * C + c`. */
export interface TaskTokenBatch extends NumberedBatch {
  readonly numChoices: number;
  /** int32 [S, R]: `[CLS] A [SEP] B [SEP]`, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, R]: 0 up to and including the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /** int32 [R]: how many tokens each row has before its padding, which is only at the end. */
  readonly lengths: Int32Array;
  /**
   * int32 [B]: the class, or the index of the correct choice. Undefined for spans and for data without
   * labels.
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

// B = samples of a micro-batch, S = sequence length, M = capacity for masked tokens, C = choices of a sample
// (1 except for multiple choice), R = B x C rows. Arrays [S, B] have the sequence first, as activations:
// token s of row b has the flat index s x B + b.

/** Properties of every kind of micro-batch. */
export interface NumberedBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /**
   * Exact integers [B]: the numbers of the samples in the dataset; random masks of dropout depend on them.
   */
  readonly sampleNumbers: Float64Array;
}

/**
 * The part of a micro-batch that a pipeline stage without tokens needs: sequences of one length, as in
 * activations [S, B].
 */
export interface SequencesOfBatch extends NumberedBatch {
  /**
   * int32 [B, S], row after row as attention reads it: the first position that each position may attend to
   * (the start of its document), in place of Megatron's block-diagonal S x S mask; undefined: the start of
   * the sequence.
   */
  readonly keyStart: Int32Array | undefined;
}

/** A micro-batch (or one sample, B = 1) on the host, ready for a language model. */
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
   * int32 [B]: tokens of each row before its padding, which is only at the end. These tokens attend to each
   * other, also to a random replacement by `[PAD]`; Megatron's padding mask hides such a replacement.
   */
  readonly lengths: Int32Array;
  /**
   * int32 [M]: flat indices into [S, B] of the tokens to predict, row after row and ascending in each; the
   * first `numMasked` count. M is one of eight sizes, so that shapes do not change from step to step.
   */
  readonly maskedPositions: Int32Array;
  /** int32 [M]: the token before masking; 0 where unused. */
  readonly maskedLabels: Int32Array;
  /** float32 [M]: 1, and 0 where unused (position 0). */
  readonly maskedWeights: Float32Array;
  /** The number of masked tokens that count in the loss, at most M. */
  readonly numMasked: number;
  /** int32 [B]: 1 where A and B were swapped, else 0; undefined when the dataset has no sentence pairs. */
  readonly sentenceOrderLabels: Int32Array | undefined;
}

/** A micro-batch of a fine-tuning task. Choice c of sample b is row b x C + c. */
export interface TaskTokenBatch extends NumberedBatch {
  readonly numChoices: number;
  /** int32 [S, R]: `[CLS] A [SEP] B [SEP]`, then padding. */
  readonly tokens: Int32Array;
  /** int32 [S, R]: 0 up to the first `[SEP]`, 1 after it, 0 on padding. */
  readonly tokenTypes: Int32Array;
  /** int32 [R]: tokens of each row before its padding, which is only at the end. */
  readonly lengths: Int32Array;
  /** int32 [B]: the class, or the right choice; undefined for spans and for data without labels. */
  readonly labels: Int32Array | undefined;
  /**
   * int32 [B]: position in S of the answer's first token, 0 (`[CLS]`) where the window holds no answer;
   * spans only.
   */
  readonly startPositions: Int32Array | undefined;
  /** int32 [B]: position in S of the answer's last token; spans only. */
  readonly endPositions: Int32Array | undefined;
}

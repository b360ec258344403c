// B = samples of a micro-batch, S = sequence length of the encoder, D = of the decoder.

/** A micro-batch for span corruption. Tokens lie sequence first, as activations do. */
export interface SpanTokenBatch {
  readonly batchSize: number;
  /** Of the encoder. */
  readonly sequenceLength: number;
  readonly decoderSequenceLength: number;
  /** int32 [S, B]: inputs of the encoder, then padding. */
  readonly tokens: Int32Array;
  /** int32 [B]: tokens of each row before its padding. */
  readonly lengths: Int32Array;
  /** int32 [D, B]: inputs of the decoder, then padding. */
  readonly decoderTokens: Int32Array;
  /** int32 [B]. */
  readonly decoderLengths: Int32Array;
  /** int32 [D, B]: what the decoder must say; 0 on padding. */
  readonly labels: Int32Array;
  /** float32 [D, B]: 1, and 0 on padding. */
  readonly lossMask: Float32Array;
  /** Exact integers [B]: which samples of the dataset these are. */
  readonly sampleNumbers: Float64Array;
}

/** An empty batch of padding. */
export function createSpanTokenBatch(options: {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly decoderSequenceLength: number;
  readonly padding: number;
}): SpanTokenBatch {
  const { batchSize, sequenceLength, decoderSequenceLength, padding } = options;
  return {
    batchSize,
    sequenceLength,
    decoderSequenceLength,
    tokens: new Int32Array(batchSize * sequenceLength).fill(padding),
    lengths: new Int32Array(batchSize),
    decoderTokens: new Int32Array(batchSize * decoderSequenceLength).fill(padding),
    decoderLengths: new Int32Array(batchSize),
    labels: new Int32Array(batchSize * decoderSequenceLength),
    lossMask: new Float32Array(batchSize * decoderSequenceLength),
    sampleNumbers: new Float64Array(batchSize),
  };
}

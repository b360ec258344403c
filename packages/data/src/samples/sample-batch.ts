// B = samples of a micro-batch, S = sequence length.

/** A micro-batch (or one sample, B = 1) ready for a language model, row after row. */
export interface SampleBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** int32 [B, S]: inputs. */
  readonly tokens: Int32Array;
  /** int32 [B, S]: the token after each input. */
  readonly labels: Int32Array;
  /** float32 [B, S]: 1 where the label counts in the loss, else 0. */
  readonly lossMask: Float32Array;
  /** int32 [B, S]. */
  readonly positionIds: Int32Array;
  /**
   * int32 [B, S], only with reset attention masks: the first position that each position may attend to (the
   * start of its document). Stands for Megatron's block-diagonal S x S mask.
   */
  readonly keyStart: Int32Array | undefined;
  /** Exact integers [B]: which samples of the dataset these are. */
  readonly sampleNumbers: Float64Array;
}

/** An empty batch of these shapes. */
export function createSampleBatch(options: {
  batchSize: number;
  sequenceLength: number;
  withKeyStart: boolean;
}): SampleBatch {
  const { batchSize, sequenceLength, withKeyStart } = options;
  const elements = batchSize * sequenceLength;
  return {
    batchSize,
    sequenceLength,
    tokens: new Int32Array(elements),
    labels: new Int32Array(elements),
    lossMask: new Float32Array(elements),
    positionIds: new Int32Array(elements),
    keyStart: withKeyStart ? new Int32Array(elements) : undefined,
    sampleNumbers: new Float64Array(batchSize),
  };
}

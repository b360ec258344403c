// B = samples of a micro-batch, S = sequence length.

/**
 * A micro-batch (or one sample, B = 1) ready for a language model. Tokens lie sequence first, as activations
 * do: token s of row b has the flat index s x B + b.
 */
export interface SampleBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** int32 [S, B]: inputs. */
  readonly tokens: Int32Array;
  /** int32 [S, B]: the token after each input. */
  readonly labels: Int32Array;
  /** float32 [S, B]: 1 where the label counts in the loss, else 0. */
  readonly lossMask: Float32Array;
  /** int32 [S, B]. */
  readonly positionIds: Int32Array;
  /**
   * int32 [B, S], row after row as attention reads it, only with reset attention masks: the first position
   * that each position may attend to (the start of its document). Stands for Megatron's block-diagonal S x S
   * mask.
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

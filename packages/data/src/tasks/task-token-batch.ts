// B = samples of a micro-batch, C = choices of a sample (1 but for multiple choice), S = sequence length,
// R = B x C rows.

/**
 * A micro-batch of a fine-tuning task. Tokens lie sequence first, as activations do: token s of row r has the
 * flat index s x R + r, and choice c of sample b is row b x C + c.
 */
export interface TaskTokenBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
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
  /** Exact integers [B]: which samples of the dataset these are; random masks of dropout depend on them. */
  readonly sampleNumbers: Float64Array;
}

/** Which of the optional arrays a dataset's batches have. */
export interface TaskTargets {
  readonly labels: boolean;
  readonly positions: boolean;
}

/** An empty batch of padding. */
export function createTaskTokenBatch(options: {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly numChoices: number;
  readonly padding: number;
  readonly targets: TaskTargets;
}): TaskTokenBatch {
  const { batchSize, sequenceLength, numChoices, padding, targets } = options;
  const rows = batchSize * numChoices;
  return {
    batchSize,
    sequenceLength,
    numChoices,
    tokens: new Int32Array(rows * sequenceLength).fill(padding),
    tokenTypes: new Int32Array(rows * sequenceLength),
    lengths: new Int32Array(rows),
    labels: targets.labels ? new Int32Array(batchSize) : undefined,
    startPositions: targets.positions ? new Int32Array(batchSize) : undefined,
    endPositions: targets.positions ? new Int32Array(batchSize) : undefined,
    sampleNumbers: new Float64Array(batchSize),
  };
}

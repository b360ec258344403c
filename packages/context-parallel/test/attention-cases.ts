/** One attention computation to test. */
export interface AttentionCase {
  readonly name: string;
  readonly dtype?: 'float32' | 'float64' | 'bfloat16';
  /** G: the number of groups of heads. Default: the number of heads. */
  readonly numGroups?: number;
  readonly causal?: boolean;
  readonly windowSize?: number;
  /** The first position of each document, by sample. */
  readonly documents?: ReadonlyArray<readonly number[]>;
  /** Numbers of rows of packed samples, in place of sequences; rows after the last sample are unused. */
  readonly packed?: readonly number[];
  readonly dropout?: number;
  /** True if every head has a sink, whose score is trained. */
  readonly sinks?: true;
  /** The amplitude of queries and keys. Default: 1. */
  readonly amplitude?: number;
  /** The bound of differences between results; set if the rounding of scores determines it. */
  readonly bound?: number;
}

export const sizes = { sequenceLength: 32, batch: 2, numHeads: 4, headSize: 8 } as const;

/** The test cases; a chunk has 8 positions with two processes, 4 with four. */
export const cases: readonly AttentionCase[] = [
  { name: 'causal', causal: true },
  { name: 'all keys' },
  { name: 'two groups of heads', causal: true, numGroups: 2 },
  { name: 'one group of heads', causal: true, numGroups: 1 },
  { name: 'a window shorter than a chunk', causal: true, windowSize: 2 },
  { name: 'a window of a chunk', causal: true, windowSize: 8 },
  { name: 'a window of more than two chunks', causal: true, windowSize: 19 },
  { name: 'sinks', causal: true, sinks: true, dropout: 0.1 },
  { name: 'sinks of grouped heads', sinks: true, numGroups: 2, dtype: 'float64' },
  {
    name: 'sinks, documents and a window',
    causal: true,
    sinks: true,
    windowSize: 7,
    documents: [[0, 6, 16], [0]],
  },
  {
    name: 'documents that begin within chunks and at their borders',
    causal: true,
    documents: [
      [0, 3, 8, 21],
      [0, 16, 17, 24],
    ],
  },
  { name: 'documents and a window', causal: true, windowSize: 5, documents: [[0, 6, 16], [0]] },
  { name: 'dropout', causal: true, dropout: 0.3 },
  {
    name: 'dropout, documents and groups',
    causal: true,
    dropout: 0.2,
    numGroups: 2,
    documents: [
      [0, 11],
      [0, 8],
    ],
  },
  {
    name: 'documents of all lengths',
    causal: true,
    dtype: 'float64',
    dropout: 0.1,
    windowSize: 6,
    documents: [
      [0, 1, 2, 4, 7, 11, 16, 22, 29],
      [0, 7, 13, 18, 22, 25, 27, 28],
    ],
  },
  {
    name: 'documents in bfloat16',
    causal: true,
    dtype: 'bfloat16',
    numGroups: 2,
    documents: [
      [0, 5],
      [0, 9, 30],
    ],
  },
  { name: 'packed samples', packed: [20, 3, 33], numGroups: 2 },
  { name: 'packed samples and dropout', packed: [1, 17, 2, 44], dropout: 0.2 },
  { name: 'packed samples that leave a process nothing', packed: [9, 6], dtype: 'float64' },
  // a score of 300 is rounded by up to 3e-5, which is the relative error of its exponential
  { name: 'scores of some hundreds', causal: true, amplitude: 16, bound: 3e-5 },
  { name: 'float64', causal: true, dtype: 'float64', numGroups: 2, windowSize: 9 },
  { name: 'bfloat16', causal: true, dtype: 'bfloat16' },
];

const value = (index: number): number => Math.sin(1 + index * 1.7) + 0.5 * Math.cos(index * 0.31);

/** Makes a projection [S, B, (A + 2 G) * D]. */
export function makeProjection({
  numGroups = sizes.numHeads,
  amplitude = 1,
}: AttentionCase): readonly number[] {
  const { sequenceLength, batch, numHeads, headSize } = sizes;
  const perGroup = (numHeads / numGroups + 2) * headSize;
  const length = sequenceLength * batch * numGroups * perGroup;
  return Array.from({ length }, (_, index) => {
    const isValue = index % perGroup >= perGroup - headSize;
    return value(index) * (isValue ? 1 : amplitude);
  });
}

/** Makes an output gradient [S, B, A * D]. */
export const makeOutputGradient = (): readonly number[] =>
  Array.from(
    { length: sizes.sequenceLength * sizes.batch * sizes.numHeads * sizes.headSize },
    (_, index) => value(index * 3 + 7) / 4,
  );

/** Returns the first position of the document of each position, [B, S]. */
export function makeKeyStart({ documents }: AttentionCase): Int32Array | undefined {
  if (documents === undefined) return undefined;
  const { sequenceLength } = sizes;
  return Int32Array.from(
    documents.flatMap((starts) =>
      Array.from({ length: sequenceLength }, (_, position) => starts.findLast((start) => start <= position)!),
    ),
  );
}

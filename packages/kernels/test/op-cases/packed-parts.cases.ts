import { type AttentionOptions, attentionForward, type DType, Tensor } from '../../src/index.js';
import { differentiateAttention } from '../support/differentiate-attention.js';
import type { CaseTable, GradientCase, OpCase, TensorSpec, Tensors } from './op-case.js';
import { attentionTolerances } from './tolerances.js';

/** Some queries of every packed sample with some of its keys. */
interface Part {
  readonly name: string;
  /** The number of keys of each sample. */
  readonly lengths: readonly number[];
  /** The positions [first, end) of the queries of each sample. */
  readonly queries: ReadonlyArray<readonly [first: number, end: number]>;
  /** The position of each sample's first key. Default: 0. */
  readonly firstKeys?: readonly number[];
  readonly heads: number;
  /** The number of query heads that share a key and a value. Default: 1. */
  readonly headsPerGroup?: number;
  readonly headSize: number;
  /** Default: true. */
  readonly causal?: boolean;
  readonly windowSize?: number;
  readonly dropout?: number;
  /** Rows at the end that belong to no sample, of queries and of keys. Default: none. */
  readonly rest?: readonly [queries: number, keys: number];
  readonly dtypes?: readonly DType[];
}

const parts: Part[] = [
  {
    name: 'first halves',
    lengths: [40, 130, 2],
    queries: [
      [0, 20],
      [0, 65],
      [0, 1],
    ],
    heads: 2,
    headSize: 16,
  },
  {
    name: 'anywhere',
    lengths: [70, 1, 0, 150],
    queries: [
      [50, 70],
      [0, 0],
      [0, 0],
      [30, 117],
    ],
    heads: 2,
    headSize: 19,
    rest: [3, 5],
  },
  {
    name: 'window and dropout in groups',
    lengths: [100, 7, 90],
    queries: [
      [25, 100],
      [3, 5],
      [88, 90],
    ],
    heads: 4,
    headsPerGroup: 2,
    headSize: 24,
    windowSize: 40,
    dropout: 0.3,
    rest: [0, 2],
  },
  {
    name: 'no queries',
    lengths: [5, 9],
    queries: [
      [0, 0],
      [3, 3],
    ],
    heads: 2,
    headSize: 16,
    rest: [2, 1],
  },
  {
    name: 'no keys',
    lengths: [0, 0],
    queries: [
      [0, 4],
      [1, 3],
    ],
    heads: 2,
    headSize: 16,
    rest: [1, 2],
  },
  {
    name: 'not causal',
    lengths: [33, 70],
    queries: [
      [4, 30],
      [60, 70],
    ],
    heads: 2,
    headSize: 64,
    causal: false,
    dropout: 0.2,
    rest: [1, 0],
    dtypes: ['bfloat16'],
  },
  {
    // the queries of the fourth sample come before its keys
    name: 'documents of a sequence',
    lengths: [70, 12, 40, 9],
    queries: [
      [130, 180],
      [300, 311],
      [500, 540],
      [600, 609],
    ],
    firstKeys: [100, 300, 520, 700],
    heads: 4,
    headsPerGroup: 2,
    headSize: 16,
    windowSize: 45,
    dropout: 0.3,
  },
];

const total = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0);
const startsOf = (lengths: readonly number[]): number[] =>
  [0, ...lengths].map((_, index) => total(lengths.slice(0, index)));

function sizesOf({ lengths, queries, heads, headsPerGroup = 1, headSize, rest = [0, 0] }: Part) {
  const numQueries = queries.map(([first, end]) => end - first);
  return {
    numQueries,
    queryShape: [total(numQueries) + rest[0], heads, headSize],
    keyShape: [total(lengths) + rest[1], heads / headsPerGroup, headSize],
    statisticsShape: [heads, total(numQueries) + rest[0]],
  };
}

function inputTensors(part: Part): Record<string, TensorSpec> {
  const { lengths, queries, firstKeys, dropout } = part;
  const { numQueries, queryShape, keyShape } = sizesOf(part);
  const integers = (values: readonly number[]): TensorSpec => ({
    shape: [values.length],
    dtype: 'int32',
    values,
  });
  return {
    query: { shape: queryShape },
    key: { shape: keyShape },
    value: { shape: keyShape },
    starts: integers(startsOf(lengths)),
    queryStarts: integers(startsOf(numQueries)),
    first: integers(queries.map(([first]) => first)),
    ...(firstKeys !== undefined && { firstKeys: integers(firstKeys) }),
    ...(dropout !== undefined && {
      samples: { shape: [lengths.length], dtype: 'int64', values: (index: number) => 70_000 + index },
    }),
  };
}

function optionsOf(
  part: Part,
  { starts, queryStarts, first, firstKeys, samples }: Tensors,
): AttentionOptions {
  const { lengths, causal = true, windowSize, dropout: probability } = part;
  const { numQueries } = sizesOf(part);
  return {
    visibility: {
      causal,
      windowSize,
      packed: {
        starts: starts!,
        first: firstKeys,
        longest: Math.max(...lengths),
        numScores: total(lengths.map((length, sample) => length * numQueries[sample]!)),
        queries: { starts: queryStarts!, longest: Math.max(...numQueries), first: first! },
      },
    },
    ...(probability !== undefined && {
      dropout: { probability, keyLow: 0x9e3779b9, keyHigh: 12345, samples: samples!, headOffset: 5 },
    }),
  };
}

function commonOf({ name, lengths, dtypes }: Part, direction: 'forward' | 'backward') {
  const operation = `attention_${direction}`;
  return {
    name: `${operation} parts of packed samples ${name} [${lengths}]`,
    operation,
    tolerance: attentionTolerances[direction],
    ...(dtypes && { dtypes }),
  };
}

function forwardCase(part: Part): OpCase {
  const { queryShape, statisticsShape } = sizesOf(part);
  return {
    ...commonOf(part, 'forward'),
    tensors: {
      output: { shape: queryShape, output: true },
      logSumExp: { shape: statisticsShape, dtype: 'float32', output: true },
      ...inputTensors(part),
    },
    run: (tensors) => {
      const { output, logSumExp, query, key, value } = tensors;
      const operands = { output: output!, logSumExp, query: query!, key: key!, value: value! };
      attentionForward({ ...operands, ...optionsOf(part, tensors) });
    },
  };
}

function backwardCase(part: Part): OpCase {
  const { queryShape, keyShape, statisticsShape } = sizesOf(part);
  return {
    ...commonOf(part, 'backward'),
    tensors: {
      queryGradient: { shape: queryShape, output: true },
      keyGradient: { shape: keyShape, output: true },
      valueGradient: { shape: keyShape, output: true },
      outputGradient: { shape: queryShape },
      ...inputTensors(part),
    },
    run: (tensors) => {
      const { query, key, value, queryGradient, keyGradient, valueGradient, outputGradient } = tensors;
      const { device, dtype } = query!;
      // results of the forward pass on the same device
      using output = Tensor.empty({ shape: queryShape, dtype, device });
      using logSumExp = Tensor.empty({ shape: statisticsShape, dtype: 'float32', device });
      const operands = { query: query!, key: key!, value: value! };
      const call = { output, logSumExp, ...operands, ...optionsOf(part, tensors) };
      attentionForward(call);
      differentiateAttention({
        ...call,
        outputGradient: outputGradient!,
        queryGradient: queryGradient!,
        keyGradient: keyGradient!,
        valueGradient: valueGradient!,
      });
    },
  };
}

function gradientCase(part: Part): GradientCase {
  const { queryShape, statisticsShape } = sizesOf(part);
  const callOf = (tensors: Tensors) => ({
    logSumExp: tensors.logSumExp!,
    query: tensors.query!,
    key: tensors.key!,
    value: tensors.value!,
    ...optionsOf(part, tensors),
  });
  return {
    name: `attention of parts of packed samples ${part.name}`,
    tensors: {
      ...inputTensors(part),
      logSumExp: { shape: statisticsShape },
      output: { shape: queryShape },
    },
    differentiable: ['query', 'key', 'value'],
    outputShape: queryShape,
    forward: (tensors, output) => attentionForward({ ...callOf(tensors), output }),
    backward: (tensors, outputGradient, gradients) => {
      const call = { ...callOf(tensors), output: tensors.output! };
      attentionForward(call);
      differentiateAttention({
        ...call,
        outputGradient,
        queryGradient: gradients.query!,
        keyGradient: gradients.key!,
        valueGradient: gradients.value!,
      });
    },
  };
}

const gradientParts: Part[] = [
  {
    name: 'of documents',
    lengths: [3, 2],
    queries: [
      [11, 14],
      [20, 22],
    ],
    firstKeys: [10, 21],
    heads: 2,
    headSize: 2,
  },
  {
    name: 'with dropout',
    lengths: [4, 3],
    queries: [
      [1, 3],
      [2, 3],
    ],
    heads: 2,
    headSize: 2,
    dropout: 0.3,
  },
];

export const { cases, gradientCases }: Required<CaseTable> = {
  cases: [...parts.map(forwardCase), ...parts.map(backwardCase)],
  gradientCases: gradientParts.map(gradientCase),
};

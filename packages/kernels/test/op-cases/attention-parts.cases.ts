import { type AttentionOptions, attentionForward, type DType, Tensor } from '../../src/index.js';
import { differentiateAttention } from '../support/differentiate-attention.js';
import type { CaseTable, GradientCase, OpCase, TensorSpec, Tensors } from './op-case.js';
import { attentionTolerances } from './tolerances.js';

/** Some queries of a sequence with some of its keys, as context parallelism computes them. */
interface Part {
  readonly name: string;
  /** The positions [first, end) of the queries in the sequence. */
  readonly queries: readonly [first: number, end: number];
  readonly keys: readonly [first: number, end: number];
  readonly batch?: number;
  readonly heads?: number;
  /** The number of query heads that share a key and a value. Default: 1. */
  readonly headsPerGroup?: number;
  readonly headSize: number;
  /** Default: true. */
  readonly causal?: boolean;
  readonly windowSize?: number;
  /** The length, in positions, of the documents that follow each other in the sequence. */
  readonly document?: number;
  /** The distance between padding keys. */
  readonly padding?: number;
  readonly dropout?: number;
  /** True for results in float32, and for gradients to which the call adds. */
  readonly isExact?: boolean;
  readonly dtypes?: readonly DType[];
  readonly isOnlyForCuda?: boolean;
}

const parts: Part[] = [
  { name: 'later keys', queries: [70, 140], keys: [70, 140], headSize: 16 },
  { name: 'queries after some keys', queries: [100, 171], keys: [37, 130], headSize: 19 },
  { name: 'queries after all keys', queries: [200, 270], keys: [10, 80], headSize: 16 },
  { name: 'queries before all keys', queries: [0, 70], keys: [70, 139], headSize: 16 },
  { name: 'the first queries before the keys', queries: [20, 220], keys: [100, 200], headSize: 24, batch: 2 },
  { name: 'one query', queries: [99, 100], keys: [64, 130], headSize: 20 },
  { name: 'all keys visible', queries: [5, 75], keys: [90, 230], headSize: 16, causal: false },
  { name: 'window', queries: [100, 240], keys: [64, 200], headSize: 16, windowSize: 30 },
  { name: 'keys before the window', queries: [300, 370], keys: [64, 200], headSize: 16, windowSize: 30 },
  { name: 'keys that end in the window', queries: [150, 350], keys: [0, 170], headSize: 16, windowSize: 90 },
  {
    name: 'documents',
    queries: [130, 270],
    keys: [60, 200],
    headSize: 16,
    batch: 2,
    document: 55,
  },
  { name: 'documents after all keys', queries: [130, 200], keys: [20, 90], headSize: 16, document: 65 },
  { name: 'dropout', queries: [64, 200], keys: [64, 200], headSize: 16, dropout: 0.3, heads: 2 },
  { name: 'dropout between groups', queries: [77, 213], keys: [37, 190], headSize: 16, dropout: 0.3 },
  {
    name: 'everything',
    queries: [90, 230],
    keys: [50, 190],
    batch: 2,
    heads: 4,
    headsPerGroup: 2,
    headSize: 40,
    windowSize: 70,
    document: 60,
    padding: 7,
    dropout: 0.2,
  },
  { name: 'exact', queries: [100, 171], keys: [37, 130], headSize: 19, isExact: true },
  { name: 'exact, queries before all keys', queries: [0, 70], keys: [70, 139], headSize: 16, isExact: true },
  {
    name: 'exact with everything',
    queries: [90, 230],
    keys: [50, 190],
    batch: 2,
    heads: 4,
    headsPerGroup: 2,
    headSize: 40,
    windowSize: 70,
    document: 60,
    dropout: 0.2,
    isExact: true,
  },
];

/** Parts of several tiles, at head sizes of Hopper's kernels. */
const partsOfHopper = (
  [
    { name: 'queries after some keys', queries: [300, 500], keys: [37, 430], headSize: 64 },
    { name: 'queries before some keys', queries: [100, 400], keys: [200, 330], headSize: 128 },
    { name: 'queries after all keys', queries: [400, 600], keys: [0, 300], headSize: 80, dropout: 0.2 },
    {
      name: 'window',
      queries: [300, 500],
      keys: [128, 400],
      headSize: 96,
      windowSize: 100,
      headsPerGroup: 2,
    },
    { name: 'documents', queries: [300, 500], keys: [100, 430], headSize: 128, document: 150, padding: 9 },
    { name: 'exact', queries: [300, 500], keys: [37, 430], headSize: 96, isExact: true },
    { name: 'wide heads', queries: [130, 270], keys: [60, 200], headSize: 192 },
    { name: 'exact, wide heads', queries: [130, 270], keys: [60, 200], headSize: 256, isExact: true },
    { name: 'wide heads and dropout', queries: [130, 270], keys: [60, 200], headSize: 256, dropout: 0.1 },
  ] as Part[]
).map((part): Part => ({ heads: 2, ...part, dtypes: ['bfloat16'], isOnlyForCuda: true }));

function sizesOf({ queries, keys, batch = 1, heads = 1, headsPerGroup = 1, headSize }: Part) {
  const [numQueries, numKeys] = [queries[1] - queries[0], keys[1] - keys[0]];
  return {
    numQueries,
    numKeys,
    batch,
    queryShape: [numQueries, batch, heads, headSize],
    keyShape: [numKeys, batch, heads / headsPerGroup, headSize],
    statisticsShape: [batch, heads, numQueries],
  };
}

/** Declares a result, in the dtype of the operands or in float32. */
function resultOf({ isExact }: Part, shape: readonly number[]): TensorSpec {
  return { shape, output: true, ...(isExact && { dtype: 'float32' }) };
}

/** Returns query, key, value, and the tensors that hide keys or drop them. */
function inputTensors(part: Part): Record<string, TensorSpec> {
  const { queries, document, padding, dropout } = part;
  const { numQueries, numKeys, batch, queryShape, keyShape } = sizesOf(part);
  return {
    query: { shape: queryShape },
    key: { shape: keyShape },
    value: { shape: keyShape },
    ...(document !== undefined && {
      keyStart: {
        shape: [batch, numQueries],
        dtype: 'int32',
        values: (index: number) => Math.floor((queries[0] + (index % numQueries)) / document) * document,
      },
    }),
    ...(padding !== undefined && {
      keyMask: {
        shape: [batch, numKeys],
        dtype: 'uint8',
        values: (index: number) => Number(index % padding !== 0),
      },
    }),
    ...(dropout !== undefined && {
      samples: { shape: [batch], dtype: 'int64', values: (index: number) => 70_000 + index },
    }),
  };
}

function optionsOf(part: Part, { keyStart, keyMask, samples }: Tensors): AttentionOptions {
  const { queries, keys, causal = true, windowSize, dropout: probability } = part;
  return {
    visibility: { firstQuery: queries[0], firstKey: keys[0], causal, windowSize, keyStart, keyMask },
    ...(probability !== undefined && {
      dropout: { probability, keyLow: 0x9e3779b9, keyHigh: 12345, samples: samples!, headOffset: 3 },
    }),
  };
}

function commonOf(part: Part, direction: 'forward' | 'backward') {
  const { name, queries, keys, dtypes, isOnlyForCuda } = part;
  const operation = `attention_${direction}`;
  return {
    name: `${operation} part ${name} [${queries}] of [${keys}] head size ${part.headSize}`,
    operation,
    tolerance: attentionTolerances[direction],
    ...(dtypes && { dtypes }),
    ...(isOnlyForCuda && { isOnlyForCuda }),
  };
}

function forwardCase(part: Part): OpCase {
  const { queryShape, statisticsShape } = sizesOf(part);
  return {
    ...commonOf(part, 'forward'),
    tensors: {
      output: resultOf(part, queryShape),
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
  const { isExact = false } = part;
  const { queryShape, keyShape, statisticsShape } = sizesOf(part);
  return {
    ...commonOf(part, 'backward'),
    tensors: {
      queryGradient: { ...resultOf(part, queryShape), accumulated: isExact },
      keyGradient: { ...resultOf(part, keyShape), accumulated: isExact },
      valueGradient: { ...resultOf(part, keyShape), accumulated: isExact },
      outputGradient: { shape: queryShape },
      ...inputTensors(part),
    },
    run: (tensors) => {
      const { queryGradient, keyGradient, valueGradient, outputGradient } = tensors;
      const { device, dtype: ofOperands } = tensors.query!;
      const dtype = isExact ? 'float32' : ofOperands;
      // results of the forward pass on the same device
      using output = Tensor.empty({ shape: queryShape, dtype, device });
      using logSumExp = Tensor.empty({ shape: statisticsShape, dtype: 'float32', device });
      const operands = { query: tensors.query!, key: tensors.key!, value: tensors.value! };
      const call = { output, logSumExp, ...operands, ...optionsOf(part, tensors) };
      attentionForward(call);
      differentiateAttention({
        ...call,
        outputGradient: outputGradient!,
        queryGradient: queryGradient!,
        keyGradient: keyGradient!,
        valueGradient: valueGradient!,
        accumulate: isExact,
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
    name: `attention part ${part.name}`,
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
  { name: 'queries before some keys', queries: [2, 7], keys: [4, 8], headSize: 2, heads: 2 },
  { name: 'window', queries: [5, 9], keys: [3, 7], headSize: 2, windowSize: 2 },
  { name: 'documents and dropout', queries: [4, 9], keys: [2, 8], headSize: 2, document: 3, dropout: 0.4 },
];

const allParts = [...parts, ...partsOfHopper];

export const { cases, gradientCases }: Required<CaseTable> = {
  cases: [...allParts.map(forwardCase), ...allParts.map(backwardCase)],
  gradientCases: gradientParts.map(gradientCase),
};

import type { AttentionOptions } from '../../src/index.js';
import { projectedBackward, projectedForward } from '../support/projected-attention.js';
import { type AttentionShapes, type AttentionVariant, casesOfAttention } from './cases-of-attention.js';
import type { TensorSpec, Tensors } from './op-case.js';

interface Variant extends AttentionVariant {
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly headSize: number;
  readonly causal?: boolean;
  readonly windowSize?: number;
  /** The number of rows at the end that belong to no sample. */
  readonly rest?: number;
  readonly dropout?: number;
  readonly scale?: number;
}

/**
 * Samples of several tiles, at head sizes of Hopper's kernels, whose rings of tiles wrap around in the
 * longest sample.
 */
const variantsOfManyTiles: Variant[] = [
  { name: 'many tiles', lengths: [1, 322, 64], heads: 1, headSize: 64, rest: 7, dtypes: ['float16'] },
  {
    name: 'dropout, many tiles',
    lengths: [5, 260, 0, 129],
    heads: 1,
    headSize: 128,
    dropout: 0.1,
    dtypes: ['bfloat16'],
  },
  { name: 'wide heads, many tiles', lengths: [133, 1, 70], heads: 1, headSize: 256, dtypes: ['float16'] },
  {
    name: 'groups of 2, several tiles',
    lengths: [5, 130, 0, 70],
    heads: 4,
    headSize: 64,
    rest: 7,
    dropout: 0.1,
    headsPerGroup: 2,
    dtypes: ['bfloat16'],
  },
  {
    name: 'groups of 4, wide heads',
    lengths: [70, 3],
    heads: 4,
    headSize: 192,
    headsPerGroup: 4,
    dtypes: ['float16'],
  },
];

const variants: Variant[] = [
  { name: 'one row', lengths: [1], heads: 1, headSize: 8 },
  { name: 'whole tiles', lengths: [64, 128], heads: 2, headSize: 64 },
  { name: 'odd lengths', lengths: [3, 130, 65, 1], heads: 2, headSize: 19, scale: 0.3 },
  { name: 'rows of no sample', lengths: [70, 5], heads: 3, headSize: 16, rest: 13 },
  { name: 'an empty sample', lengths: [0, 20, 0], heads: 1, headSize: 24, rest: 2 },
  { name: 'few heads, several tiles', lengths: [200], heads: 1, headSize: 40 },
  { name: 'dropout', lengths: [40, 99, 7], heads: 2, headSize: 16, rest: 6, dropout: 0.3 },
  {
    name: 'groups of 3',
    lengths: [40, 99, 7],
    heads: 6,
    headSize: 16,
    rest: 6,
    dropout: 0.3,
    headsPerGroup: 3,
  },
  { name: 'causal', lengths: [70, 1, 66], heads: 2, headSize: 19, rest: 3, causal: true },
  {
    name: 'window',
    lengths: [40, 99, 7],
    heads: 4,
    headSize: 16,
    causal: true,
    windowSize: 30,
    dropout: 0.3,
    headsPerGroup: 2,
    dtypes: ['bfloat16'],
  },
  ...variantsOfManyTiles.map((variant) => ({ ...variant, isOnlyForCuda: true })),
];

const numRows = ({ lengths, rest = 0 }: Variant): number =>
  lengths.reduce((sum, length) => sum + length, rest);

const numScores = ({ lengths }: Variant): number => lengths.reduce((sum, length) => sum + length ** 2, 0);

/** Returns the tensors that assign rows to samples. */
function maskTensors({ lengths, dropout }: Variant): Record<string, TensorSpec> {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1)! + length);
  return {
    starts: { shape: [starts.length], dtype: 'int32', values: starts },
    ...(dropout && {
      samples: { shape: [lengths.length], dtype: 'int64', values: (index: number) => 70_000 + index },
    }),
  };
}

function optionsOf(variant: Variant, { starts, samples }: Tensors): AttentionOptions {
  const { lengths, causal = false, windowSize, scale, dropout: probability } = variant;
  return {
    visibility: {
      causal,
      windowSize,
      packed: { starts: starts!, longest: Math.max(...lengths), numScores: numScores(variant) },
    },
    ...(scale !== undefined && { scale }),
    ...(probability !== undefined && {
      dropout: { probability, keyLow: 0x9e3779b9, keyHigh: 12345, samples: samples!, headOffset: 5 },
    }),
  };
}

function shapesOf(variant: Variant): AttentionShapes {
  const { heads, headSize, headsPerGroup = 1 } = variant;
  const rows = numRows(variant);
  return {
    output: [rows, heads, headSize],
    logSumExp: [heads, rows],
    qkv: [rows, heads / headsPerGroup, headsPerGroup + 2, headSize],
  };
}

/** Sizes of bert-base: 128 and 512 positions, most samples full. */
const benchmarkVariants: Variant[] = [
  { name: 'bert', lengths: [128, 128, 64, 128, 128, 128, 110, 128], heads: 12, headSize: 64 },
  { name: 'bert', lengths: [512, 470, 512, 330], heads: 12, headSize: 64 },
];

const gradientVariants: Variant[] = [
  { name: 'two samples', lengths: [3, 2], heads: 2, headSize: 3, rest: 1 },
  { name: 'causal window', lengths: [4, 2], heads: 2, headSize: 2, causal: true, windowSize: 2 },
  { name: 'dropout', lengths: [4, 1], heads: 1, headSize: 2, dropout: 0.4 },
  { name: 'groups of 2', lengths: [3, 2], heads: 4, headSize: 2, rest: 1, headsPerGroup: 2 },
];

export const { cases, gradientCases } = casesOfAttention(
  {
    name: 'packed',
    sizesOf: ({ lengths }: Variant) => lengths,
    shapesOf,
    maskTensors,
    optionsOf,
    matmulFlops: (variant) => 2 * variant.heads * variant.headSize * numScores(variant),
    forward: projectedForward,
    backward: projectedBackward,
  },
  { variants, benchmarks: benchmarkVariants, gradients: gradientVariants },
);

import type { AttentionDropout, AttentionOptions } from '../../src/index.js';
import { projectedBackward, projectedForward } from '../support/projected-attention.js';
import { timedKind } from './benchmark-sizes.js';
import { type AttentionShapes, type AttentionVariant, casesOfAttention } from './cases-of-attention.js';
import type { TensorSpec, Tensors } from './op-case.js';

/** [S, B, A, D] */
type Sizes = readonly [sequence: number, batch: number, heads: number, headSize: number];

interface Variant extends AttentionVariant {
  readonly sizes: Sizes;
  readonly causal?: boolean;
  readonly windowSize?: number;
  /** Lengths of the documents that follow each other in every sample. */
  readonly documents?: readonly number[];
  /** The number of real keys of each sample; the other keys are padding. */
  readonly lengths?: readonly number[];
  readonly dropout?: number;
  readonly scale?: number;
  readonly headOffset?: number;
}

/**
 * Keys and values that heads share, at head sizes of Hopper's kernels, which sum key and value gradients in a
 * loop over a group.
 */
const variantsOfGroups: Variant[] = [
  {
    name: 'groups of 2, several tiles',
    sizes: [200, 1, 4, 64],
    causal: true,
    headsPerGroup: 2,
    dtypes: ['bfloat16'],
  },
  {
    name: 'groups of 2 with documents',
    sizes: [140, 2, 4, 96],
    documents: [60, 80],
    headsPerGroup: 2,
    dtypes: ['bfloat16'],
  },
  {
    name: 'one group of 4 with dropout',
    sizes: [150, 1, 4, 128],
    causal: true,
    dropout: 0.1,
    headOffset: 3,
    headsPerGroup: 4,
    dtypes: ['bfloat16'],
  },
  {
    name: 'groups of 2 with padding',
    sizes: [140, 2, 4, 192],
    lengths: [140, 60],
    headsPerGroup: 2,
    dtypes: ['float16'],
  },
  {
    name: 'one group of 2 with dropout',
    sizes: [140, 1, 2, 256],
    causal: true,
    dropout: 0.2,
    headsPerGroup: 2,
    dtypes: ['bfloat16'],
  },
];

/**
 * Variants at each head size of Hopper's kernels, with more tiles than a ring has slots (six at most), so
 * that rings wrap around. These kernels do not support float32.
 */
const variantsOfManyTiles: Variant[] = [
  { name: 'causal, many tiles', sizes: [641, 1, 1, 64] as const, causal: true },
  { name: 'bidirectional, many tiles', sizes: [450, 1, 1, 96] as const },
  { name: 'dropout, many tiles', sizes: [641, 1, 1, 80] as const, causal: true, dropout: 0.2 },
  {
    name: 'documents and dropout, many tiles',
    sizes: [390, 2, 1, 128] as const,
    documents: [150, 240],
    dropout: 0.1,
    headOffset: 3,
  },
  { name: 'bidirectional, many tiles', sizes: [263, 1, 1, 192] as const, dtypes: ['bfloat16'] as const },
  {
    name: 'dropout, many tiles',
    sizes: [200, 1, 1, 256] as const,
    causal: true,
    dropout: 0.1,
    dtypes: ['bfloat16'] as const,
  },
  ...variantsOfGroups,
].map((variant) => ({ dtypes: ['bfloat16', 'float16'], ...variant, isOnlyForCuda: true }));

const variants: Variant[] = [
  { name: 'one position', sizes: [1, 1, 1, 8], causal: true },
  { name: 'causal', sizes: [130, 2, 2, 16], causal: true },
  { name: 'causal, odd sizes', sizes: [67, 1, 3, 19], causal: true },
  { name: 'causal, wide heads', sizes: [70, 1, 1, 128], causal: true },
  { name: 'causal, head size 80, few heads', sizes: [193, 1, 1, 80], causal: true },
  { name: 'bidirectional', sizes: [129, 1, 2, 32], scale: 0.3 },
  { name: 'padding', sizes: [150, 3, 2, 64], lengths: [150, 37, 64] },
  { name: 'a sample of padding only', sizes: [65, 2, 1, 16], lengths: [0, 65] },
  { name: 'documents', sizes: [200, 2, 1, 24], causal: true, documents: [3, 70, 64, 63] },
  { name: 'dropout', sizes: [131, 2, 2, 16], causal: true, dropout: 0.3, headOffset: 5 },
  {
    name: 'everything',
    sizes: [140, 2, 1, 40],
    causal: true,
    documents: [60, 80],
    lengths: [140, 99],
    dropout: 0.1,
    headOffset: 3,
  },
  { name: 'groups of 2', sizes: [130, 2, 4, 16], causal: true, headsPerGroup: 2 },
  { name: 'one group of 3', sizes: [67, 2, 3, 19], headsPerGroup: 3, dropout: 0.2, headOffset: 4 },
  {
    name: 'groups of 4 with everything',
    sizes: [140, 2, 8, 40],
    causal: true,
    documents: [60, 80],
    lengths: [140, 99],
    dropout: 0.1,
    headOffset: 3,
    headsPerGroup: 4,
  },
  { name: 'window', sizes: [150, 1, 2, 24], causal: true, windowSize: 20 },
  {
    name: 'window with everything',
    sizes: [140, 2, 4, 40],
    causal: true,
    windowSize: 50,
    documents: [60, 80],
    lengths: [140, 99],
    dropout: 0.1,
    headsPerGroup: 2,
    dtypes: ['bfloat16'],
  },
  { name: 'one group, few samples, several tiles', sizes: [200, 1, 2, 24], causal: true, headsPerGroup: 2 },
  ...variantsOfManyTiles,
];

/** Returns the tensors that define which keys a query sees. */
function maskTensors({
  sizes: [sequence, batch],
  documents,
  lengths,
  dropout,
}: Variant): Record<string, TensorSpec> {
  const starts = documents?.flatMap((length, index) =>
    Array<number>(length).fill(documents.slice(0, index).reduce((total, before) => total + before, 0)),
  );
  return {
    ...(starts && {
      keyStart: {
        shape: [batch, sequence],
        dtype: 'int32',
        values: (index: number) => starts[index % sequence]!,
      },
    }),
    ...(lengths && {
      keyMask: {
        shape: [batch, sequence],
        dtype: 'uint8',
        values: (index: number) => Number(index % sequence < lengths[Math.floor(index / sequence)]!),
      },
    }),
    ...(dropout && {
      samples: { shape: [batch], dtype: 'int64', values: (index: number) => 70_000 + index },
    }),
  };
}

function optionsOf(variant: Variant, { keyStart, keyMask, samples }: Tensors): AttentionOptions {
  const dropout: AttentionDropout | undefined =
    variant.dropout === undefined
      ? undefined
      : {
          probability: variant.dropout,
          keyLow: 0x9e3779b9,
          keyHigh: 12345,
          samples: samples!,
          headOffset: variant.headOffset ?? 0,
        };
  const { causal = false, windowSize, scale } = variant;
  const visibility = { causal, windowSize, keyStart, keyMask };
  return { visibility, dropout, ...(scale !== undefined && { scale }) };
}

function shapesOf({
  sizes: [sequence, batch, heads, headSize],
  headsPerGroup = 1,
}: Variant): AttentionShapes {
  return {
    output: [sequence, batch, heads, headSize],
    logSumExp: [batch, heads, sequence],
    qkv: [sequence, batch, heads / headsPerGroup, headsPerGroup + 2, headSize],
  };
}

/**
 * Returns the FLOPs of one matmul of [S, D] by [D, S] in all heads, without the part above the diagonal if
 * causal.
 */
function matmulFlops({ sizes: [sequence, batch, heads, headSize], causal }: Variant): number {
  return 2 * batch * heads * sequence * sequence * headSize * (causal ? 0.5 : 1);
}

const variantsOfGpu: Variant[] = [
  { name: 'causal', sizes: [1024, 16, 12, 64], causal: true },
  { name: 'causal', sizes: [2048, 4, 16, 128], causal: true },
  { name: 'causal', sizes: [1024, 8, 16, 96], causal: true },
  { name: 'causal', sizes: [2048, 4, 32, 80], causal: true },
  { name: 'causal', sizes: [2048, 4, 8, 256], causal: true },
  { name: 'dropout causal', sizes: [2048, 4, 16, 128], causal: true, dropout: 0.1 },
  { name: 'bidirectional', sizes: [512, 32, 16, 64] },
];

const variantsOfDryRun: Variant[] = [{ name: 'causal', sizes: [64, 1, 2, 16], causal: true }];

const variantsOfHost: Variant[] = [
  { name: 'causal', sizes: [256, 16, 6, 64], causal: true },
  { name: 'causal', sizes: [1024, 2, 12, 64], causal: true },
  { name: 'padding', sizes: [128, 8, 12, 64], lengths: [128, 100, 90, 128, 77, 128, 110, 64] },
];

const gradientVariants: Variant[] = [
  { name: 'bidirectional', sizes: [4, 1, 2, 3] },
  { name: 'causal, documents', sizes: [5, 2, 1, 2], causal: true, documents: [2, 3], scale: 0.8 },
  { name: 'padding', sizes: [4, 2, 1, 3], lengths: [3, 0] },
  { name: 'window', sizes: [5, 1, 2, 2], causal: true, windowSize: 1 },
  { name: 'dropout', sizes: [6, 1, 2, 2], causal: true, dropout: 0.4, headOffset: 2 },
  { name: 'groups of 2', sizes: [4, 2, 4, 2], causal: true, dropout: 0.3, headsPerGroup: 2 },
];

export const { cases, gradientCases } = casesOfAttention(
  {
    sizesOf: ({ sizes }: Variant) => sizes,
    shapesOf,
    maskTensors,
    optionsOf,
    matmulFlops,
    forward: projectedForward,
    backward: projectedBackward,
  },
  {
    variants,
    benchmarks: { host: variantsOfHost, gpu: variantsOfGpu, 'dry run': variantsOfDryRun }[timedKind],
    gradients: gradientVariants,
  },
);

import type { DType } from '../../src/index.js';
import {
  type AttentionCase,
  after,
  packed,
  packedParts,
  padded,
  part,
  type Samples,
} from '../support/attention-case.js';
import { timedKind } from './benchmark-sizes.js';
import { benchmarkCases, directionCases, gradientCase } from './cases-of-attention.js';
import type { CaseTable } from './op-case.js';

type Heads = readonly [heads: number, headSize: number];
type More = Omit<Partial<AttentionCase>, 'name'>;

const made = (name: string, samples: Samples, [heads, headSize]: Heads, more: More = {}): AttentionCase => ({
  name,
  ...samples,
  heads,
  headSize,
  ...more,
});

const causal = true;
const half: readonly DType[] = ['bfloat16'];
const otherHalf: readonly DType[] = ['float16'];
/** Every n-th key is padding. */
const every = (distance: number) => (position: number) => position % distance === 0;

const wholeSamples = [
  made('one position', padded(1), [1, 8], { causal }),
  made('causal', padded(130, 2), [2, 16], { causal }),
  made('causal, odd sizes', padded(67), [3, 19], { causal }),
  made('causal, wide heads', padded(70), [1, 128], { causal }),
  made('causal, head size 80, few heads', padded(193), [1, 80], { causal }),
  made('bidirectional', padded(129), [2, 32], { scale: 0.3 }),
  made('padding', padded(150, 3), [2, 64], { isPadding: after([150, 37, 64]) }),
  made('a sample of padding only', padded(65, 2), [1, 16], { isPadding: after([0, 65]) }),
  made('documents', padded(200, 2), [1, 24], { causal, documents: [3, 70, 64, 63] }),
  made('dropout', padded(131, 2), [2, 16], { causal, dropout: 0.3 }),
  made('groups of 2', padded(130, 2), [4, 16], { causal, headsPerGroup: 2 }),
  made('one group of 3', padded(67, 2), [3, 19], { headsPerGroup: 3, dropout: 0.2 }),
  made('window', padded(150), [2, 24], { causal, windowSize: 20 }),
  made('one group, few samples, several tiles', padded(200), [2, 24], { causal, headsPerGroup: 2 }),
];

const everything: More = { causal, documents: [60, 80], isPadding: after([140, 99]), dropout: 0.1 };
const withEverything = [
  made('everything', padded(140, 2), [1, 40], everything),
  made('groups of 4 with everything', padded(140, 2), [8, 40], { ...everything, headsPerGroup: 4 }),
  made('window with everything', padded(140, 2), [4, 40], {
    ...everything,
    windowSize: 50,
    headsPerGroup: 2,
    dtypes: half,
  }),
];

/** Values of another head size than queries and keys, as in DeepSeek-V2's multi-head latent attention. */
const unequalHeads = [
  made('wider values', padded(130, 2), [2, 24], { valueSize: 40, causal }),
  made('narrower values', padded(130, 2), [4, 40], { valueSize: 24, headsPerGroup: 2, dropout: 0.2, causal }),
  made('values of one element', padded(70), [2, 19], { valueSize: 1 }),
  made('queries of one element', padded(70), [2, 1], { valueSize: 19, causal }),
  made('sizes of DeepSeek', padded(100), [2, 192], { valueSize: 128, causal, windowSize: 80 }),
  made('wider values, packed', packed([70, 1, 66], 3), [2, 24], { valueSize: 40, causal }),
  made('narrower values, packed', packed([5, 100, 0], 2), [4, 33], {
    valueSize: 17,
    headsPerGroup: 4,
    dropout: 0.2,
  }),
].map((one): AttentionCase => ({ ...one, isOnlyForHost: true }));

const softCaps = [
  made('a soft cap among the scores', padded(140, 2), [4, 40], {
    ...everything,
    softCap: 0.8,
    headsPerGroup: 2,
  }),
  made('a soft cap above the scores', padded(150), [2, 64], { causal, windowSize: 20, softCap: 50 }),
  made('a soft cap, packed', packed([70, 1, 66], 3), [2, 24], { causal, softCap: 1.5 }),
].map((one): AttentionCase => ({ ...one, isOnlyForHost: true }));

/**
 * Variants at each head size of Hopper's kernels, with more tiles than a ring has slots (six at most), so
 * that rings wrap around; they sum key and value gradients in a loop over a group. These kernels do not
 * support float32.
 */
const manyTiles = [
  made('causal, many tiles', padded(641), [1, 64], { causal }),
  made('bidirectional, many tiles', padded(450), [1, 96]),
  made('dropout, many tiles', padded(641), [1, 80], { causal, dropout: 0.2 }),
  made('documents and dropout, many tiles', padded(390, 2), [1, 128], {
    documents: [150, 240],
    dropout: 0.1,
  }),
  made('bidirectional, many tiles', padded(263), [1, 192], { dtypes: half }),
  made('dropout, many tiles', padded(200), [1, 256], { causal, dropout: 0.1, dtypes: half }),
  made('groups of 2, several tiles', padded(200), [4, 64], { causal, headsPerGroup: 2, dtypes: half }),
  made('groups of 2 with documents', padded(140, 2), [4, 96], {
    documents: [60, 80],
    headsPerGroup: 2,
    dtypes: half,
  }),
  made('one group of 4 with dropout', padded(150), [4, 128], {
    causal,
    dropout: 0.1,
    headsPerGroup: 4,
    dtypes: half,
  }),
  made('groups of 2 with padding', padded(140, 2), [4, 192], {
    isPadding: after([140, 60]),
    headsPerGroup: 2,
    dtypes: otherHalf,
  }),
  made('one group of 2 with dropout', padded(140), [2, 256], {
    causal,
    dropout: 0.2,
    headsPerGroup: 2,
    dtypes: half,
  }),
  made('packed, many tiles', packed([1, 322, 64], 7), [1, 64], { dtypes: otherHalf }),
  made('packed, dropout, many tiles', packed([5, 260, 0, 129]), [1, 128], { dropout: 0.1, dtypes: half }),
  made('packed, wide heads, many tiles', packed([133, 1, 70]), [1, 256], { dtypes: otherHalf }),
  made('packed, groups of 2, several tiles', packed([5, 130, 0, 70], 7), [4, 64], {
    dropout: 0.1,
    headsPerGroup: 2,
    dtypes: half,
  }),
  made('packed, groups of 4, wide heads', packed([70, 3]), [4, 192], { headsPerGroup: 4, dtypes: otherHalf }),
].map((one): AttentionCase => ({ dtypes: ['bfloat16', 'float16'], ...one, isOnlyForCuda: true }));

const packedSamples = [
  made('packed, one row', packed([1]), [1, 8]),
  made('packed, whole tiles', packed([64, 128]), [2, 64]),
  made('packed, odd lengths', packed([3, 130, 65, 1]), [2, 19], { scale: 0.3 }),
  made('packed, rows of no sample', packed([70, 5], 13), [3, 16]),
  made('packed, an empty sample', packed([0, 20, 0], 2), [1, 24]),
  made('packed, few heads, several tiles', packed([200]), [1, 40]),
  made('packed, dropout', packed([40, 99, 7], 6), [2, 16], { dropout: 0.3 }),
  made('packed, groups of 3', packed([40, 99, 7], 6), [6, 16], { dropout: 0.3, headsPerGroup: 3 }),
  made('packed, causal', packed([70, 1, 66], 3), [2, 19], { causal }),
  made('packed, window', packed([40, 99, 7]), [4, 16], {
    causal,
    windowSize: 30,
    dropout: 0.3,
    headsPerGroup: 2,
    dtypes: half,
  }),
];

/** Some queries of a sequence with some of its keys, as context parallelism computes these. */
const parts = [
  made('later keys', part([70, 140], [70, 140]), [1, 16]),
  made('queries after some keys', part([100, 171], [37, 130]), [1, 19]),
  made('queries after all keys', part([200, 270], [10, 80]), [1, 16]),
  made('queries before all keys', part([0, 70], [70, 139]), [1, 16]),
  made('the first queries before the keys', part([20, 220], [100, 200], 2), [1, 24]),
  made('one query', part([99, 100], [64, 130]), [1, 20]),
  made('all keys visible', part([5, 75], [90, 230]), [1, 16], { causal: false }),
  made('window', part([100, 240], [64, 200]), [1, 16], { windowSize: 30 }),
  made('keys before the window', part([300, 370], [64, 200]), [1, 16], { windowSize: 30 }),
  made('keys that end in the window', part([150, 350], [0, 170]), [1, 16], { windowSize: 90 }),
  made('documents', part([130, 270], [60, 200], 2), [1, 16], { documents: [55] }),
  made('documents after all keys', part([130, 200], [20, 90]), [1, 16], { documents: [65] }),
  made('dropout', part([64, 200], [64, 200]), [2, 16], { dropout: 0.3 }),
  made('dropout between groups', part([77, 213], [37, 190]), [1, 16], { dropout: 0.3 }),
  made('everything', part([90, 230], [50, 190], 2), [4, 40], {
    headsPerGroup: 2,
    windowSize: 70,
    documents: [60],
    isPadding: every(7),
    dropout: 0.2,
  }),
  made('exact', part([100, 171], [37, 130]), [1, 19], { isExact: true }),
  made('exact, queries before all keys', part([0, 70], [70, 139]), [1, 16], { isExact: true }),
  made('exact with everything', part([90, 230], [50, 190], 2), [4, 40], {
    headsPerGroup: 2,
    windowSize: 70,
    documents: [60],
    dropout: 0.2,
    isExact: true,
  }),
];

/** Parts of several tiles, at head sizes of Hopper's kernels. */
const partsOfHopper = [
  made('queries after some keys', part([300, 500], [37, 430]), [2, 64]),
  made('queries before some keys', part([100, 400], [200, 330]), [2, 128]),
  made('queries after all keys', part([400, 600], [0, 300]), [2, 80], { dropout: 0.2 }),
  made('window', part([300, 500], [128, 400]), [2, 96], { windowSize: 100, headsPerGroup: 2 }),
  made('documents', part([300, 500], [100, 430]), [2, 128], { documents: [150], isPadding: every(9) }),
  made('exact', part([300, 500], [37, 430]), [2, 96], { isExact: true }),
  made('wide heads', part([130, 270], [60, 200]), [2, 192]),
  made('exact, wide heads', part([130, 270], [60, 200]), [2, 256], { isExact: true }),
  made('wide heads and dropout', part([130, 270], [60, 200]), [2, 256], { dropout: 0.1 }),
].map((one): AttentionCase => ({ ...one, dtypes: half, isOnlyForCuda: true }));

/** Some queries of every packed sample with some of its keys. */
const partsOfPacked = [
  made(
    'first halves',
    packedParts([
      [0, 20, 0, 40],
      [0, 65, 0, 130],
      [0, 1, 0, 2],
    ]),
    [2, 16],
  ),
  made(
    'anywhere',
    packedParts(
      [
        [50, 70, 0, 70],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [30, 117, 0, 150],
      ],
      [3, 5],
    ),
    [2, 19],
  ),
  made(
    'window and dropout in groups',
    packedParts(
      [
        [25, 100, 0, 100],
        [3, 5, 0, 7],
        [88, 90, 0, 90],
      ],
      [0, 2],
    ),
    [4, 24],
    { headsPerGroup: 2, windowSize: 40, dropout: 0.3 },
  ),
  made(
    'no queries',
    packedParts(
      [
        [0, 0, 0, 5],
        [3, 3, 0, 9],
      ],
      [2, 1],
    ),
    [2, 16],
  ),
  made(
    'no keys',
    packedParts(
      [
        [0, 4, 0, 0],
        [1, 3, 0, 0],
      ],
      [1, 2],
    ),
    [2, 16],
  ),
  made(
    'not causal',
    packedParts(
      [
        [4, 30, 0, 33],
        [60, 70, 0, 70],
      ],
      [1, 0],
    ),
    [2, 64],
    { causal: false, dropout: 0.2, dtypes: half },
  ),
  made(
    // the queries of the fourth sample come before its keys
    'documents of a sequence',
    packedParts([
      [130, 180, 100, 170],
      [300, 311, 300, 312],
      [500, 540, 520, 560],
      [600, 609, 700, 709],
    ]),
    [4, 16],
    { headsPerGroup: 2, windowSize: 45, dropout: 0.3 },
  ),
].map((one): AttentionCase => ({ ...one, name: `packed part ${one.name}` }));

/** Padded and packed samples whose results and parts have every memory and every precision. */
const otherMemory = [
  made('gaps', padded(70, 2), [4, 12], { causal, headsPerGroup: 2, memory: 'gaps' }),
  made('gaps, packed', packed([40, 33], 2), [4, 12], { causal, headsPerGroup: 2, memory: 'gaps' }),
  made('exact, packed', packed([40, 99], 6), [2, 16], { isExact: true, memory: 'tensors' }),
  made(
    'exact, packed, documents of a sequence',
    packedParts([
      [33, 70, 20, 70],
      [99, 139, 99, 139],
    ]),
    [2, 16],
    {
      isExact: true,
      windowSize: 30,
    },
  ),
];

const projected = [
  ...wholeSamples,
  ...withEverything,
  ...unequalHeads,
  ...softCaps,
  ...manyTiles,
  ...packedSamples,
].map((one): AttentionCase => ({ memory: 'projection', ...one }));
const inParts = [
  ...[...parts, ...partsOfHopper].map((one): AttentionCase => ({ ...one, name: `part ${one.name}` })),
  ...partsOfPacked,
].map((one): AttentionCase => ({ causal, ...one }));

const gradients = [
  made('bidirectional', padded(4), [2, 3]),
  made('causal, documents', padded(5, 2), [1, 2], { causal, documents: [2, 3], scale: 0.8 }),
  made('padding', padded(4, 2), [1, 3], { isPadding: after([3, 0]) }),
  made('window', padded(5), [2, 2], { causal, windowSize: 1 }),
  made('dropout', padded(6), [2, 2], { causal, dropout: 0.4 }),
  made('groups of 2', padded(4, 2), [4, 2], { causal, dropout: 0.3, headsPerGroup: 2 }),
  made('soft cap', padded(5, 2), [4, 3], { causal, dropout: 0.3, headsPerGroup: 2, softCap: 0.6 }),
  made('wider values', padded(4, 2), [4, 2], { valueSize: 3, causal, dropout: 0.3, headsPerGroup: 2 }),
  made('packed', packed([3, 2], 1), [2, 3]),
  made('packed, causal window', packed([4, 2]), [2, 2], { causal, windowSize: 2 }),
  made('packed, dropout', packed([4, 1]), [1, 2], { dropout: 0.4 }),
  made('packed, groups of 2', packed([3, 2], 1), [4, 2], { headsPerGroup: 2 }),
  made('packed, narrower values', packed([3, 2], 1), [4, 3], { valueSize: 2, headsPerGroup: 2 }),
].map((one): AttentionCase => ({ memory: 'projection', ...one }));
const gradientsOfParts = [
  made('queries before some keys', part([2, 7], [4, 8]), [2, 2]),
  made('window', part([5, 9], [3, 7]), [1, 2], { windowSize: 2 }),
  made('documents and dropout', part([4, 9], [2, 8]), [1, 2], { documents: [3], dropout: 0.4 }),
  made(
    'packed, of documents',
    packedParts([
      [11, 14, 10, 13],
      [20, 22, 21, 23],
    ]),
    [2, 2],
  ),
  made(
    'packed, with dropout',
    packedParts([
      [1, 3, 0, 4],
      [2, 3, 0, 3],
    ]),
    [2, 2],
    { dropout: 0.3 },
  ),
].map((one): AttentionCase => ({ causal, ...one, name: `part ${one.name}` }));

const benchmarksOfGpu = [
  made('causal', padded(1024, 16), [12, 64], { causal }),
  made('causal', padded(2048, 4), [16, 128], { causal }),
  made('causal', padded(1024, 8), [16, 96], { causal }),
  made('causal', padded(2048, 4), [32, 80], { causal }),
  made('causal', padded(2048, 4), [8, 256], { causal }),
  made('dropout causal', padded(2048, 4), [16, 128], { causal, dropout: 0.1 }),
  made('bidirectional', padded(512, 32), [16, 64]),
];
const benchmarksOfDryRun = [made('causal', padded(64), [2, 16], { causal })];
const benchmarksOfHost = [
  made('causal', padded(256, 16), [6, 64], { causal }),
  made('causal', padded(1024, 2), [12, 64], { causal }),
  made('padding', padded(128, 8), [12, 64], { isPadding: after([128, 100, 90, 128, 77, 128, 110, 64]) }),
];
/** Sizes of bert-base: 128 and 512 positions, most samples full. */
const benchmarksOfPacked = [
  made('packed, bert', packed([128, 128, 64, 128, 128, 128, 110, 128]), [12, 64]),
  made('packed, bert', packed([512, 470, 512, 330]), [12, 64]),
];
const benchmarks = { host: benchmarksOfHost, gpu: benchmarksOfGpu, 'dry run': benchmarksOfDryRun }[timedKind];

export const { cases, gradientCases }: Required<CaseTable> = {
  cases: [
    ...directionCases([...projected, ...inParts, ...otherMemory.map((one) => ({ causal, ...one }))]),
    ...[...benchmarks, ...benchmarksOfPacked].flatMap((one) =>
      benchmarkCases({ ...one, memory: 'projection' }),
    ),
  ],
  gradientCases: [...gradients, ...gradientsOfParts].map(gradientCase),
};

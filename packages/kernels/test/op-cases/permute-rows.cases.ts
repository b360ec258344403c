import { combineRows, permuteRows } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

// T rows, H hidden, k slots
interface Sizes {
  readonly rows: number;
  readonly topK: number;
  readonly hidden: number;
  /** True if every fourth slot was dropped. */
  readonly drops?: boolean;
}

const sizes: readonly Sizes[] = [
  { rows: 5, topK: 2, hidden: 7 },
  { rows: 3, topK: 1, hidden: 64 },
  { rows: 40, topK: 3, hidden: 100, drops: true },
  { rows: 130, topK: 4, hidden: 130, drops: true },
  { rows: 0, topK: 2, hidden: 8 },
  { rows: 4, topK: 4, hidden: 1 },
];

/** Returns the slots in another order: 7 is coprime to their number, and dropped slots are at the end. */
function makePlaces({ rows, topK, drops = false }: Sizes): { sources: number[]; positions: number[] } {
  const slots = Array.from({ length: rows * topK }, (_, index) => (index * 7) % (rows * topK));
  const kept = slots.filter((slot) => !drops || slot % 4 !== 1);
  const positions = new Array<number>(slots.length).fill(-1);
  kept.forEach((slot, row) => {
    positions[slot] = row;
  });
  return { sources: [...kept, ...new Array<number>(slots.length - kept.length).fill(-1)], positions };
}

const declareSources = (size: Sizes): TensorSpec => ({
  shape: [size.rows * size.topK],
  dtype: 'int32',
  values: makePlaces(size).sources,
});
const declarePositions = (size: Sizes): TensorSpec => ({
  shape: [size.rows, size.topK],
  dtype: 'int32',
  values: makePlaces(size).positions,
});

const nameCase = ({ rows, topK, hidden, drops }: Sizes): string =>
  `of ${topK} slots [${rows}, ${hidden}]${drops ? ' dropped' : ''}`;

const permute = (size: Sizes): OpCase => ({
  name: `permute_rows ${nameCase(size)}`,
  operation: 'permute_rows',
  tensors: {
    output: { shape: [size.rows * size.topK, size.hidden], output: true },
    input: { shape: [size.rows, size.hidden] },
    sources: declareSources(size),
  },
  run: ({ output, input, sources }) =>
    permuteRows({ output: output!, input: input!, sources: sources!, topK: size.topK }),
});

const combine = (size: Sizes): OpCase => ({
  name: `combine_rows ${nameCase(size)}`,
  operation: 'combine_rows',
  tensors: {
    output: { shape: [size.rows, size.hidden], output: true },
    rows: { shape: [size.rows * size.topK, size.hidden] },
    positions: declarePositions(size),
  },
  run: ({ output, rows, positions }) => combineRows({ output: output!, rows: rows!, positions: positions! }),
});

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }): OpCase[] => {
  const size = { rows: sequence * batch, topK: 4, hidden };
  // each slot is read once and written once, a row of T stays in the cache
  const elements = size.rows * hidden * (size.topK + 1);
  return [permute(size), combine(size)].map((each) => ({
    ...each,
    name: `${each.name} ${preset}`,
    benchmark: { elements },
  }));
});

export const cases: readonly OpCase[] = [...sizes.map(permute), ...sizes.map(combine), ...benchmarks];

const gradientSize: Sizes = { rows: 4, topK: 3, hidden: 5, drops: true };
const [numRows, numSlots] = [gradientSize.rows, gradientSize.rows * gradientSize.topK];
export const gradientCases: readonly GradientCase[] = [
  {
    name: 'permute_rows',
    tensors: {
      input: { shape: [numRows, 5] },
      sources: declareSources(gradientSize),
      positions: declarePositions(gradientSize),
    },
    differentiable: ['input'],
    outputShape: [numSlots, 5],
    forward: ({ input, sources }, output) =>
      permuteRows({ output, input: input!, sources: sources!, topK: gradientSize.topK }),
    backward: ({ positions }, outputGradient, gradients) =>
      combineRows({ output: gradients.input!, rows: outputGradient, positions: positions! }),
  },
  {
    name: 'combine_rows',
    tensors: {
      rows: { shape: [numSlots, 5] },
      sources: declareSources(gradientSize),
      positions: declarePositions(gradientSize),
    },
    differentiable: ['rows'],
    outputShape: [numRows, 5],
    forward: ({ rows, positions }, output) => combineRows({ output, rows: rows!, positions: positions! }),
    backward: ({ sources }, outputGradient, gradients) =>
      permuteRows({
        output: gradients.rows!,
        input: outputGradient,
        sources: sources!,
        topK: gradientSize.topK,
      }),
  },
];

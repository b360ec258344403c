import { groupedMatmul, groupedWeightGradient } from '../../src/index.js';
import { timedKind } from './benchmark-sizes.js';
import { declareOffsets, type Grouping, groupings } from './grouped-offsets.js';
import type { GradientCase, OpCase } from './op-case.js';

// N outputs, K inputs
type Sizes = readonly [outputs: number, inputs: number];

const tolerance = {
  float32: { absolute: 4e-5, relative: 1e-5 },
  bfloat16: { absolute: 4e-5, relative: 2 ** -7 },
  float16: { absolute: 4e-5, relative: 2 ** -10 },
  reason: 'sums of up to 130 cancelling N(0, 1) products, one after the other in float32',
};

const matmul = (grouping: Grouping, [outputs, inputs]: Sizes, transposeWeights: boolean): OpCase => {
  const { rows, ends, what } = grouping;
  return {
    name: `grouped_matmul [${outputs}, ${inputs}]${transposeWeights ? ' transposed' : ''}, ${what}`,
    operation: 'grouped_matmul',
    tensors: {
      output: { shape: [rows, outputs], output: true },
      input: { shape: [rows, inputs] },
      weights: { shape: [ends.length, ...(transposeWeights ? [outputs, inputs] : [inputs, outputs])] },
      offsets: declareOffsets(grouping),
    },
    run: ({ output, input, weights, offsets }) =>
      groupedMatmul({
        output: output!,
        input: input!,
        weights: weights!,
        offsets: offsets!,
        transposeWeights,
      }),
    tolerance,
  };
};

const gradient = (grouping: Grouping, [outputs, inputs]: Sizes, accumulate: boolean): OpCase => {
  const { rows, ends, what } = grouping;
  return {
    name: `grouped_weight_gradient [${outputs}, ${inputs}]${accumulate ? ' accumulate' : ''}, ${what}`,
    operation: 'grouped_weight_gradient',
    tensors: {
      weightGradient: {
        shape: [ends.length, outputs, inputs],
        dtype: 'float32',
        output: true,
        accumulated: accumulate,
      },
      outputGradient: { shape: [rows, outputs] },
      input: { shape: [rows, inputs] },
      offsets: declareOffsets(grouping),
    },
    run: ({ weightGradient, outputGradient, input, offsets }) =>
      groupedWeightGradient({
        weightGradient: weightGradient!,
        outputGradient: outputGradient!,
        input: input!,
        offsets: offsets!,
        accumulate,
      }),
    tolerance: { ...tolerance, bfloat16: tolerance.float32, float16: tolerance.float32 },
  };
};

const sizes: readonly Sizes[] = [
  [7, 5],
  [64, 33],
  [100, 130],
];

/** More rows, columns and steps than a task or a block has, on several threads. */
const large: readonly OpCase[] = [
  matmul({ what: 'of 600 rows', rows: 610, ends: [5, 600] }, [70, 800], true),
  matmul({ what: 'of many outputs', rows: 40, ends: [17, 40] }, [600, 90], false),
  matmul({ what: 'of many inputs', rows: 20, ends: [17, 20] }, [35, 1700], true),
  gradient({ what: 'of 1700 rows', rows: 1710, ends: [1700, 1701] }, [20, 35], true),
  gradient({ what: 'of many inputs and outputs', rows: 9, ends: [9] }, [530, 600], false),
].map((each) => ({
  ...each,
  tolerance: {
    float32: { absolute: 4e-4, relative: 1e-5 },
    bfloat16: { absolute: 4e-4, relative: each.operation === 'grouped_matmul' ? 2 ** -7 : 1e-5 },
    float16: { absolute: 4e-4, relative: each.operation === 'grouped_matmul' ? 2 ** -10 : 1e-5 },
    reason:
      'sums of 1700 N(0, 1) products pass 64: each of 1700 roundings is up to 4e-6, which add up to 9e-5 in the root mean square',
  },
}));

/** Benchmarks of 2048 tokens with 4 slots each, and with small experts. */
const benchmarks: readonly OpCase[] = [{ experts: 32, rows: timedKind === 'dry run' ? 64 : 8192 }].flatMap(
  ({ experts, rows }): OpCase[] => {
    const [hidden, feedForward] = [512, 256];
    const ends = Array.from({ length: experts }, (_, index) => Math.floor((rows * (index + 1)) / experts));
    const grouping = { what: `${experts} groups of ${rows} rows`, rows, ends };
    const flops = 4 * rows * hidden * feedForward;
    return [
      matmul(grouping, [2 * feedForward, hidden], true),
      matmul(grouping, [hidden, 2 * feedForward], false),
      gradient(grouping, [2 * feedForward, hidden], true),
    ].map((each) => ({
      ...each,
      benchmark: { flops },
      tolerance: {
        float32: { absolute: 1e-3, relative: 1e-5 },
        bfloat16: { absolute: 1e-3, relative: 2 ** -7 },
        float16: { absolute: 1e-3, relative: 2 ** -10 },
        reason: 'sums of hundreds of cancelling N(0, 1) products in float32',
      },
    }));
  },
);

export const cases: readonly OpCase[] = [
  ...groupings.flatMap((grouping) =>
    sizes.flatMap((size) => [
      ...[true, false].map((transposed) => matmul(grouping, size, transposed)),
      ...[true, false].map((accumulate) => gradient(grouping, size, accumulate)),
    ]),
  ),
  ...large,
  ...benchmarks,
];

const grouping: Grouping = { what: '', rows: 6, ends: [2, 2, 5] };
export const gradientCases: readonly GradientCase[] = [
  {
    name: 'grouped_matmul',
    tensors: {
      input: { shape: [6, 4] },
      weights: { shape: [3, 5, 4] },
      offsets: declareOffsets(grouping),
    },
    differentiable: ['input', 'weights'],
    outputShape: [6, 5],
    forward: ({ input, weights, offsets }, output) =>
      groupedMatmul({
        output,
        input: input!,
        weights: weights!,
        offsets: offsets!,
        transposeWeights: true,
      }),
    backward: ({ input, weights, offsets }, outputGradient, gradients) => {
      groupedMatmul({
        output: gradients.input!,
        input: outputGradient,
        weights: weights!,
        offsets: offsets!,
      });
      groupedWeightGradient({
        weightGradient: gradients.weights!,
        outputGradient,
        input: input!,
        offsets: offsets!,
      });
    },
  },
];

import { groupedBiasBackward, groupedBiasForward, groupedSumRows } from '../../src/index.js';
import { declareOffsets, type Grouping, groupings } from './grouped-offsets.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

const widths = [5, 64, 100];
const ofRows = (rows: number): TensorSpec => ({ shape: [rows], dtype: 'float32' });

const sums = (
  grouping: Grouping,
  width: number,
  options: { weights: boolean; accumulate: boolean },
): OpCase => {
  const { rows, ends, what } = grouping;
  const { weights: hasWeights, accumulate } = options;
  return {
    name: `grouped_sum_rows N ${width}${hasWeights ? ' weights' : ''}${accumulate ? ' accumulate' : ''}, ${what}`,
    operation: 'grouped_sum_rows',
    tensors: {
      output: {
        shape: [ends.length, width],
        dtype: 'float32',
        output: true,
        accumulated: accumulate,
      },
      input: { shape: [rows, width] },
      ...(hasWeights ? { weights: ofRows(rows) } : {}),
      offsets: declareOffsets(grouping),
    },
    run: ({ output, input, weights, offsets }) =>
      groupedSumRows({ output: output!, input: input!, weights, offsets: offsets!, accumulate }),
    tolerance: {
      float32: { absolute: 2e-5, relative: 1e-5 },
      bfloat16: { absolute: 2e-5, relative: 1e-5 },
      float16: { absolute: 2e-5, relative: 1e-5 },
      reason: 'sums of up to 200 cancelling values; inputs are equal in all dtypes, the sum is float32',
    },
  };
};

const forward = (grouping: Grouping, width: number, hasProbabilities: boolean): OpCase => {
  const { rows, ends, what } = grouping;
  return {
    name: `grouped_bias_forward N ${width}${hasProbabilities ? ' probabilities' : ''}, ${what}`,
    operation: 'grouped_bias_forward',
    tensors: {
      output: { shape: [rows, width], output: true },
      input: { shape: [rows, width] },
      bias: { shape: [ends.length, width] },
      ...(hasProbabilities ? { probabilities: ofRows(rows) } : {}),
      offsets: declareOffsets(grouping),
    },
    run: ({ output, input, bias, probabilities, offsets }) =>
      groupedBiasForward({
        output: output!,
        input: input!,
        bias: bias!,
        probabilities,
        offsets: offsets!,
      }),
  };
};

const backward = (grouping: Grouping, width: number): OpCase => {
  const { rows, ends, what } = grouping;
  return {
    name: `grouped_bias_backward N ${width}, ${what}`,
    operation: 'grouped_bias_backward',
    tensors: {
      probabilitiesGradient: { ...ofRows(rows), output: true },
      outputGradient: { shape: [rows, width] },
      bias: { shape: [ends.length, width] },
      offsets: declareOffsets(grouping),
    },
    run: ({ probabilitiesGradient, outputGradient, bias, offsets }) =>
      groupedBiasBackward({
        probabilitiesGradient: probabilitiesGradient!,
        outputGradient: outputGradient!,
        bias: bias!,
        offsets: offsets!,
      }),
    tolerance: {
      float32: { absolute: 1e-5, relative: 4e-6 },
      bfloat16: { absolute: 1e-5, relative: 4e-6 },
      float16: { absolute: 1e-5, relative: 4e-6 },
      reason: 'sums of up to 100 cancelling products of N(0, 1) values, float32 in every dtype',
    },
  };
};

const many: Grouping = { what: '200 and 101 of 301 rows', rows: 301, ends: [200, 301] };

export const cases: readonly OpCase[] = [...groupings, many].flatMap((grouping) =>
  widths.flatMap((width) => [
    sums(grouping, width, { weights: false, accumulate: false }),
    sums(grouping, width, { weights: true, accumulate: true }),
    forward(grouping, width, false),
    forward(grouping, width, true),
    backward(grouping, width),
  ]),
);

const grouping: Grouping = { what: '', rows: 6, ends: [2, 2, 5] };
export const gradientCases: readonly GradientCase[] = [
  {
    name: 'grouped_bias',
    tensors: {
      input: { shape: [6, 4] },
      bias: { shape: [3, 4] },
      probabilities: { shape: [6] },
      offsets: declareOffsets(grouping),
    },
    differentiable: ['bias', 'probabilities'],
    outputShape: [6, 4],
    forward: ({ input, bias, probabilities, offsets }, output) =>
      groupedBiasForward({ output, input: input!, bias: bias!, probabilities, offsets: offsets! }),
    backward: ({ bias, probabilities, offsets }, outputGradient, gradients) => {
      groupedBiasBackward({
        probabilitiesGradient: gradients.probabilities!,
        outputGradient,
        bias: bias!,
        offsets: offsets!,
      });
      groupedSumRows({
        output: gradients.bias!,
        input: outputGradient,
        weights: probabilities,
        offsets: offsets!,
      });
    },
  },
];

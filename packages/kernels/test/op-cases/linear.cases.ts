import {
  type GeluKind,
  linearGeluBackward,
  linearGeluForward,
  linearResidualForward,
  linearWeightGradient,
} from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase, Tolerance } from './op-case.js';

const kinds: readonly GeluKind[] = ['tanh', 'erf'];
// F that is a multiple of 8, as the epilogues of libraries require, and F that is not, which takes two steps
const sizes = [
  { rows: [2, 5], hidden: 16, feedForward: 64 },
  { rows: [9], hidden: 33, feedForward: 21 },
];

const tolerance = {
  float32: { absolute: 1e-5, relative: 4e-6 } satisfies Tolerance,
  bfloat16: { absolute: 8e-2, relative: 2 ** -5 } satisfies Tolerance,
  float16: { absolute: 1e-2, relative: 2 ** -8 } satisfies Tolerance,
  reason:
    'sums of K cancelling products (see matmul), and 16-bit values between the matmul and GELU rounded once or twice',
};

const forward: OpCase[] = sizes.flatMap(({ rows, hidden, feedForward }) =>
  kinds.map((kind) => ({
    name: `linear_gelu_forward ${kind} [${rows}, ${hidden}] x [${hidden}, ${feedForward}]`,
    operation: 'linear_gelu_forward',
    tensors: {
      output: { shape: [...rows, feedForward], output: true },
      preactivation: { shape: [...rows, feedForward], output: true },
      input: { shape: [...rows, hidden] },
      weight: { shape: [feedForward, hidden], scale: 0.5 },
      bias: { shape: [feedForward] },
    },
    run: ({ output, preactivation, input, weight, bias }) =>
      linearGeluForward({
        output: output!,
        preactivation: preactivation!,
        input: input!,
        weight: weight!,
        bias: bias!,
        kind,
      }),
    tolerance,
  })),
);

const backward: OpCase[] = sizes.flatMap(({ rows, hidden, feedForward }) =>
  kinds.map((kind) => ({
    name: `linear_gelu_backward ${kind} [${rows}, ${hidden}] x [${hidden}, ${feedForward}]`,
    operation: 'linear_gelu_backward',
    tensors: {
      inputGradient: { shape: [...rows, feedForward], output: true },
      outputGradient: { shape: [...rows, hidden] },
      weight: { shape: [hidden, feedForward], scale: 0.5 },
      preactivation: { shape: [...rows, feedForward], scale: 2 },
    },
    run: ({ inputGradient, outputGradient, weight, preactivation }) =>
      linearGeluBackward({
        inputGradient: inputGradient!,
        outputGradient: outputGradient!,
        weight: weight!,
        preactivation: preactivation!,
        kind,
      }),
    tolerance,
  })),
);

const residuals: OpCase[] = sizes.flatMap(({ rows, hidden, feedForward }) =>
  [true, false].map((hasBias) => {
    const shape = [rows.at(-2) ?? 1, rows.at(-1)!];
    return {
      name: `linear_residual_forward [${shape}, ${feedForward}] x [${feedForward}, ${hidden}]${hasBias ? '' : ', no bias'}`,
      operation: 'linear_residual_forward',
      tensors: {
        output: { shape: [...shape, hidden], output: true },
        residual: { shape: [...shape, hidden] },
        input: { shape: [...shape, feedForward] },
        weight: { shape: [hidden, feedForward], scale: 0.5 },
        ...(hasBias && { bias: { shape: [hidden] } }),
      },
      run: ({ output, residual, input, weight, bias }) =>
        linearResidualForward({
          output: output!,
          residual: residual!,
          input: input!,
          weight: weight!,
          bias,
        }),
      tolerance: {
        ...tolerance,
        reason:
          'sums of K cancelling products (see matmul), and 16-bit values rounded before the residual is added or only after it',
      },
    };
  }),
);

const float32 = 'float32' as const;

const weightGradients: OpCase[] = sizes.map(({ rows, hidden, feedForward }) => ({
  name: `linear_weight_gradient [${rows}, ${feedForward}]^T x [${rows}, ${hidden}] into float32`,
  operation: 'linear_weight_gradient',
  tensors: {
    weightGradient: { shape: [feedForward, hidden], dtype: float32, output: true, accumulated: true },
    biasGradient: { shape: [feedForward], dtype: float32, output: true, accumulated: true },
    outputGradient: { shape: [...rows, feedForward] },
    input: { shape: [...rows, hidden] },
  },
  run: ({ weightGradient, biasGradient, outputGradient, input }) =>
    linearWeightGradient({
      weightGradient: weightGradient!,
      biasGradient: biasGradient!,
      outputGradient: outputGradient!,
      input: input!,
    }),
  tolerance: {
    float32: { absolute: 1e-5, relative: 4e-6 },
    bfloat16: { absolute: 1e-5, relative: 4e-6 },
    float16: { absolute: 1e-5, relative: 4e-6 },
    reason: 'sums in float32 of products that float32 holds exactly, whatever the dtype of the inputs',
  },
}));

const benchmarks: OpCase[] = benchmarkSizes.flatMap(
  ({ preset, sequence, batch, hidden, feedForward }): OpCase[] => {
    const tokens = sequence * batch;
    const narrow = { shape: [tokens, hidden] };
    const wide = { shape: [tokens, feedForward] };
    const common = { tolerance, benchmark: { flops: 2 * tokens * hidden * feedForward } };
    return [
      {
        ...common,
        name: `linear_gelu_forward ${preset} [${tokens}, ${hidden}] x [${hidden}, ${feedForward}]`,
        operation: 'linear_gelu_forward',
        tensors: {
          output: { ...wide, output: true },
          preactivation: { ...wide, output: true },
          input: narrow,
          weight: { shape: [feedForward, hidden], scale: 0.05 },
          bias: { shape: [feedForward] },
        },
        run: forward[0]!.run,
      },
      {
        ...common,
        name: `linear_gelu_backward ${preset} [${tokens}, ${hidden}] x [${hidden}, ${feedForward}]`,
        operation: 'linear_gelu_backward',
        tensors: {
          inputGradient: { ...wide, output: true },
          outputGradient: narrow,
          weight: { shape: [hidden, feedForward], scale: 0.05 },
          preactivation: wide,
        },
        run: backward[0]!.run,
      },
      {
        ...common,
        name: `linear_residual_forward ${preset} [${tokens}, ${feedForward}] x [${feedForward}, ${hidden}]`,
        operation: 'linear_residual_forward',
        tensors: {
          output: { shape: [sequence, batch, hidden], output: true },
          residual: { shape: [sequence, batch, hidden] },
          input: { shape: [sequence, batch, feedForward] },
          weight: { shape: [hidden, feedForward], scale: 0.05 },
          bias: { shape: [hidden] },
        },
        run: residuals[0]!.run,
      },
      {
        ...common,
        name: `linear_weight_gradient ${preset} [${feedForward}, ${tokens}] x [${tokens}, ${hidden}]`,
        operation: 'linear_weight_gradient',
        tensors: {
          weightGradient: {
            shape: [feedForward, hidden],
            dtype: float32,
            output: true,
            accumulated: true,
          },
          biasGradient: { shape: [feedForward], dtype: float32, output: true, accumulated: true },
          outputGradient: wide,
          input: narrow,
        },
        run: weightGradients[0]!.run,
        tolerance: {
          float32: { absolute: 2e-3, relative: 1e-5 },
          bfloat16: { absolute: 2e-3, relative: 1e-5 },
          float16: { absolute: 2e-3, relative: 1e-5 },
          reason: 'sums of thousands of cancelling N(0, 1) products in float32',
        },
      },
    ];
  },
);

export const cases: readonly OpCase[] = [
  ...forward,
  ...backward,
  ...residuals,
  ...weightGradients,
  ...benchmarks,
];

import {
  biasDropoutResidualBackward,
  biasDropoutResidualForward,
  type DropoutMask,
  type Tensor,
} from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

// sample numbers beyond 32 bits take part in the counter
const samples: TensorSpec = { shape: [3], dtype: 'int64', values: [5, 4294967296 + 7, 0] };
const widths = [17, 64, 200];
const probabilities = [0, 0.1, 0.5];

function mask(probability: number, samples: Tensor, firstColumn?: number): DropoutMask {
  return { probability, key: [0xdeadbeef, 0x12345678], samples, firstColumn };
}

const forward: OpCase[] = widths.flatMap((hidden) =>
  probabilities.flatMap((probability) =>
    [true, false].map((fused) => ({
      name: `bias_dropout_residual_forward H ${hidden} p ${probability}${fused ? ' bias residual' : ''}`,
      operation: 'bias_dropout_residual_forward',
      tensors: {
        output: { shape: [5, 3, hidden], output: true },
        input: { shape: [5, 3, hidden] },
        samples,
        ...(fused ? { bias: { shape: [hidden] }, residual: { shape: [5, 3, hidden] } } : {}),
      },
      run: ({ output, input, bias, residual, samples }) =>
        biasDropoutResidualForward({
          output: output!,
          input: input!,
          bias,
          residual,
          dropout: mask(probability, samples!),
        }),
    })),
  ),
);

const backward: OpCase[] = widths.map((hidden) => ({
  name: `bias_dropout_residual_backward H ${hidden}`,
  operation: 'bias_dropout_residual_backward',
  tensors: {
    inputGradient: { shape: [5, 3, hidden], output: true },
    outputGradient: { shape: [5, 3, hidden] },
    samples,
  },
  run: ({ inputGradient, outputGradient, samples }) =>
    biasDropoutResidualBackward({
      inputGradient: inputGradient!,
      outputGradient: outputGradient!,
      dropout: mask(0.3, samples!),
    }),
}));

/** Slices of the features, on and off the boundary of a group of random numbers. */
const slices: OpCase[] = [128, 37].flatMap((firstColumn): OpCase[] => [
  {
    name: `bias_dropout_residual_forward of columns from ${firstColumn}`,
    operation: 'bias_dropout_residual_forward',
    tensors: { output: { shape: [5, 3, 128], output: true }, input: { shape: [5, 3, 128] }, samples },
    run: ({ output, input, samples }) =>
      biasDropoutResidualForward({
        output: output!,
        input: input!,
        dropout: mask(0.3, samples!, firstColumn),
      }),
  },
  {
    name: `bias_dropout_residual_backward of columns from ${firstColumn}`,
    operation: 'bias_dropout_residual_backward',
    tensors: {
      inputGradient: { shape: [5, 3, 70], output: true },
      outputGradient: { shape: [5, 3, 70] },
      samples,
    },
    run: ({ inputGradient, outputGradient, samples }) =>
      biasDropoutResidualBackward({
        inputGradient: inputGradient!,
        outputGradient: outputGradient!,
        dropout: mask(0.3, samples!, firstColumn),
      }),
  },
]);

// samples that follow each other: every row has its own coordinates
const rowSamples: TensorSpec = {
  shape: [4, 2],
  dtype: 'int64',
  values: [5, 5, 5, 4294967303, 4294967303, 0, 0, 0],
};
const positions: TensorSpec = { shape: [4, 2], dtype: 'int32', values: [0, 1, 2, 0, 1, 0, 1, 0] };

const ofRows: OpCase[] = widths.flatMap((hidden): OpCase[] => [
  {
    name: `bias_dropout_residual_forward of rows H ${hidden}`,
    operation: 'bias_dropout_residual_forward',
    tensors: {
      output: { shape: [4, 2, hidden], output: true },
      input: { shape: [4, 2, hidden] },
      samples: rowSamples,
      positions,
    },
    run: ({ output, input, samples, positions }) =>
      biasDropoutResidualForward({
        output: output!,
        input: input!,
        dropout: { ...mask(0.3, samples!), positions },
      }),
  },
  {
    name: `bias_dropout_residual_backward of rows H ${hidden}`,
    operation: 'bias_dropout_residual_backward',
    tensors: {
      inputGradient: { shape: [4, 2, hidden], output: true },
      outputGradient: { shape: [4, 2, hidden] },
      samples: rowSamples,
      positions,
    },
    run: ({ inputGradient, outputGradient, samples, positions }) =>
      biasDropoutResidualBackward({
        inputGradient: inputGradient!,
        outputGradient: outputGradient!,
        dropout: { ...mask(0.3, samples!), positions },
      }),
  },
]);

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }) =>
  [0, 0.1].flatMap((probability): OpCase[] => {
    const shape = [sequence, batch, hidden];
    const samples: TensorSpec = { shape: [batch], dtype: 'int64', values: (index) => index };
    return [
      {
        name: `bias_dropout_residual_forward p ${probability} ${preset} [${shape}]`,
        operation: 'bias_dropout_residual_forward',
        tensors: {
          output: { shape, output: true },
          input: { shape },
          bias: { shape: [hidden] },
          residual: { shape },
          samples,
        },
        run: ({ output, input, bias, residual, samples }) =>
          biasDropoutResidualForward({
            output: output!,
            input: input!,
            bias,
            residual,
            dropout: mask(probability, samples!),
          }),
        benchmark: {},
      },
      {
        name: `bias_dropout_residual_backward p ${probability} ${preset} [${shape}]`,
        operation: 'bias_dropout_residual_backward',
        tensors: { inputGradient: { shape, output: true }, outputGradient: { shape }, samples },
        run: ({ inputGradient, outputGradient, samples }) =>
          biasDropoutResidualBackward({
            inputGradient: inputGradient!,
            outputGradient: outputGradient!,
            dropout: mask(probability, samples!),
          }),
        benchmark: {},
      },
    ];
  }),
);

export const cases: readonly OpCase[] = [...forward, ...backward, ...slices, ...ofRows, ...benchmarks];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'bias_dropout_residual p 0.4',
    tensors: { input: { shape: [2, 3, 4] }, bias: { shape: [4] }, samples },
    differentiable: ['input'],
    outputShape: [2, 3, 4],
    forward: ({ input, bias, samples }, output) =>
      biasDropoutResidualForward({ output, input: input!, bias, dropout: mask(0.4, samples!) }),
    backward: ({ samples }, outputGradient, gradients) =>
      biasDropoutResidualBackward({
        inputGradient: gradients.input!,
        outputGradient,
        dropout: mask(0.4, samples!),
      }),
  },
];

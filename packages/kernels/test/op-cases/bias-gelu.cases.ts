import { biasGeluBackward, biasGeluForward, type GeluKind } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase } from './op-case.js';

const kinds: readonly GeluKind[] = ['tanh', 'erf'];
const shapes = [
  [3, 17],
  [2, 5, 64],
  [7, 1],
];

const forward: OpCase[] = kinds.flatMap((kind) =>
  shapes.flatMap((shape) =>
    [true, false].map((withBias) => ({
      name: `bias_gelu_forward ${kind} [${shape}]${withBias ? ' bias' : ''}`,
      operation: 'bias_gelu_forward',
      tensors: {
        output: { shape, output: true },
        input: { shape, scale: 2 },
        ...(withBias ? { bias: { shape: [shape.at(-1)!] } } : {}),
      },
      run: ({ output, input, bias }) => biasGeluForward({ output: output!, input: input!, bias, kind }),
    })),
  ),
);

const backward: OpCase[] = kinds.flatMap((kind) =>
  shapes.map((shape) => ({
    name: `bias_gelu_backward ${kind} [${shape}]`,
    operation: 'bias_gelu_backward',
    tensors: {
      inputGradient: { shape, output: true },
      outputGradient: { shape },
      input: { shape, scale: 2 },
      bias: { shape: [shape.at(-1)!] },
    },
    run: ({ inputGradient, outputGradient, input, bias }) =>
      biasGeluBackward({
        inputGradient: inputGradient!,
        outputGradient: outputGradient!,
        input: input!,
        bias,
        kind,
      }),
  })),
);

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch, feedForward }) => {
  const shape = [sequence * batch, feedForward];
  const bias = { shape: [feedForward] };
  return kinds.flatMap((kind): OpCase[] => [
    {
      name: `bias_gelu_forward ${kind} ${preset} [${shape}]`,
      operation: 'bias_gelu_forward',
      tensors: { output: { shape, output: true }, input: { shape }, bias },
      run: ({ output, input, bias }) => biasGeluForward({ output: output!, input: input!, bias, kind }),
      benchmark: {},
    },
    {
      name: `bias_gelu_backward ${kind} ${preset} [${shape}]`,
      operation: 'bias_gelu_backward',
      tensors: { inputGradient: { shape, output: true }, outputGradient: { shape }, input: { shape }, bias },
      run: ({ inputGradient, outputGradient, input, bias }) =>
        biasGeluBackward({
          inputGradient: inputGradient!,
          outputGradient: outputGradient!,
          input: input!,
          bias,
          kind,
        }),
      benchmark: {},
    },
  ]);
});

export const cases: readonly OpCase[] = [...forward, ...backward, ...benchmarks];

export const gradientCases: readonly GradientCase[] = kinds.map((kind) => ({
  name: `bias_gelu ${kind}`,
  tensors: { input: { shape: [3, 5] }, bias: { shape: [5] } },
  differentiable: ['input'],
  outputShape: [3, 5],
  forward: ({ input, bias }, output) => biasGeluForward({ output, input: input!, bias, kind }),
  backward: ({ input, bias }, outputGradient, gradients) =>
    biasGeluBackward({ inputGradient: gradients.input!, outputGradient, input: input!, bias, kind }),
}));

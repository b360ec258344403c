import { biasSquaredReluBackward, biasSquaredReluForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase } from './op-case.js';

const shapes = [[3, 17], [2, 5, 64], [1], [9, 2051]];

interface Options {
  readonly bias?: boolean;
  readonly name?: string;
}

const forward = (shape: readonly number[], { bias = false, name }: Options = {}): OpCase => ({
  name: `bias_squared_relu_forward ${name ?? `[${shape}]`}${bias ? ' bias' : ''}`,
  operation: 'bias_squared_relu_forward',
  tensors: {
    output: { shape, output: true },
    input: { shape, scale: 2 },
    ...(bias ? { bias: { shape: [shape.at(-1)!] } } : {}),
  },
  run: ({ output, input, bias }) => biasSquaredReluForward({ output: output!, input: input!, bias }),
});

const backward = (shape: readonly number[], { bias = false, name }: Options = {}): OpCase => ({
  name: `bias_squared_relu_backward ${name ?? `[${shape}]`}${bias ? ' bias' : ''}`,
  operation: 'bias_squared_relu_backward',
  tensors: {
    inputGradient: { shape, output: true },
    outputGradient: { shape },
    input: { shape, scale: 2 },
    ...(bias ? { bias: { shape: [shape.at(-1)!] } } : {}),
  },
  run: ({ inputGradient, outputGradient, input, bias }) =>
    biasSquaredReluBackward({
      inputGradient: inputGradient!,
      outputGradient: outputGradient!,
      input: input!,
      bias,
    }),
});

const benchmarks = benchmarkSizes.flatMap(({ preset, sequence, batch, feedForward }): OpCase[] => {
  const shape = [sequence, batch, feedForward];
  const name = `${preset} [${shape}]`;
  return [forward, backward].map((make) => ({ ...make(shape, { name, bias: true }), benchmark: {} }));
});

export const cases: readonly OpCase[] = [
  ...shapes.flatMap((shape) => [forward(shape), forward(shape, { bias: true })]),
  ...shapes.flatMap((shape) => [backward(shape), backward(shape, { bias: true })]),
  ...benchmarks,
];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'bias_squared_relu',
    tensors: { input: { shape: [3, 5] }, bias: { shape: [5] } },
    differentiable: ['input'],
    outputShape: [3, 5],
    forward: ({ input, bias }, output) => biasSquaredReluForward({ output, input: input!, bias }),
    backward: ({ input, bias }, outputGradient, gradients) =>
      biasSquaredReluBackward({ inputGradient: gradients.input!, outputGradient, input: input!, bias }),
  },
];

import { Tensor, tanhBackward, tanhForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase } from './op-case.js';

const shapes = [[3, 17], [2, 5, 64], [1]];

const forward = (shape: readonly number[], name = `[${shape}]`): OpCase => ({
  name: `tanh_forward ${name}`,
  operation: 'tanh_forward',
  tensors: { output: { shape, output: true }, input: { shape, scale: 2 } },
  run: ({ output, input }) => tanhForward({ output: output!, input: input! }),
});

const backward = (shape: readonly number[], name = `[${shape}]`): OpCase => ({
  name: `tanh_backward ${name}`,
  operation: 'tanh_backward',
  tensors: { inputGradient: { shape, output: true }, outputGradient: { shape }, output: { shape } },
  run: ({ inputGradient, outputGradient, output }) =>
    tanhBackward({ inputGradient: inputGradient!, outputGradient: outputGradient!, output: output! }),
});

// one vector for each sample, as in the pooler
const benchmarks = benchmarkSizes.flatMap(({ preset, batch, feedForward }): OpCase[] => {
  const shape = [batch, feedForward / 4];
  const name = `${preset} [${shape}]`;
  return [forward, backward].map((make) => ({ ...make(shape, name), benchmark: {} }));
});

export const cases: readonly OpCase[] = [
  ...shapes.map((shape) => forward(shape)),
  ...shapes.map((shape) => backward(shape)),
  ...benchmarks,
];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'tanh',
    tensors: { input: { shape: [3, 5] } },
    differentiable: ['input'],
    outputShape: [3, 5],
    forward: ({ input }, output) => tanhForward({ output, input: input! }),
    backward: ({ input }, outputGradient, gradients) => {
      const { shape, dtype, device } = input!;
      using output = Tensor.empty({ shape, dtype, device });
      tanhForward({ output, input: input! });
      tanhBackward({ inputGradient: gradients.input!, outputGradient, output });
    },
  },
];

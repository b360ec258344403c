import { layerNormBackward, layerNormForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, Tensors } from './op-case.js';

const epsilon = 1e-5;
const shapes = [
  [3, 17],
  [4, 2, 64],
  [33, 384],
];

const rowsOf = (shape: readonly number[]): number =>
  shape.slice(0, -1).reduce((product, dim) => product * dim, 1);

const tolerance = {
  float32: { absolute: 1e-5, relative: 1e-5 },
  // rstd enters the gradient of a bfloat16 tensor through rounded inputs; the sums themselves are float32
  bfloat16: { absolute: 2e-2, relative: 2 ** -7 },
  reason: 'sums over a row of centred values cancel; weight gradients sum over all rows in another order',
};

const forwardCase = (shape: readonly number[]): OpCase => ({
  name: `layer_norm_forward [${shape}]`,
  operation: 'layer_norm_forward',
  tensors: {
    output: { shape, output: true },
    mean: { shape: [rowsOf(shape)], dtype: 'float32', output: true },
    rstd: { shape: [rowsOf(shape)], dtype: 'float32', output: true },
    input: { shape, scale: 3 },
    weight: { shape: [shape.at(-1)!] },
    bias: { shape: [shape.at(-1)!] },
  },
  run: ({ output, mean, rstd, input, weight, bias }) =>
    layerNormForward({
      output: output!,
      mean: mean!,
      rstd: rstd!,
      input: input!,
      weight: weight!,
      bias: bias!,
      epsilon,
    }),
  tolerance,
});

const backwardInputs = (shape: readonly number[]) =>
  ({
    outputGradient: { shape },
    input: { shape },
    mean: { shape: [rowsOf(shape)], dtype: 'float32', scale: 0.1 },
    rstd: { shape: [rowsOf(shape)], dtype: 'float32', values: (index: number) => 1 + 0.01 * (index % 50) },
    weight: { shape: [shape.at(-1)!] },
  }) as const;

function runBackward(tensors: Tensors): void {
  layerNormBackward({
    inputGradient: tensors.inputGradient,
    weightGradient: tensors.weightGradient,
    biasGradient: tensors.biasGradient,
    outputGradient: tensors.outputGradient!,
    input: tensors.input!,
    mean: tensors.mean!,
    rstd: tensors.rstd!,
    weight: tensors.weight!,
    addend: tensors.addend,
  });
}

const parts = ['all', 'input', 'weight'] as const;

const backwardCases = (shape: readonly number[]): OpCase[] =>
  parts.map((part) => ({
    name: `layer_norm_backward ${part} [${shape}]`,
    operation: 'layer_norm_backward',
    tensors: {
      ...(part === 'weight' ? {} : { inputGradient: { shape, output: true }, addend: { shape } }),
      ...(part === 'input'
        ? {}
        : {
            weightGradient: { shape: [shape.at(-1)!], dtype: 'float32', output: true, accumulated: true },
            biasGradient: { shape: [shape.at(-1)!], dtype: 'float32', output: true, accumulated: true },
          }),
      ...backwardInputs(shape),
    },
    run: runBackward,
    tolerance,
  }));

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }) => {
  const shape = [sequence, batch, hidden];
  return [forwardCase(shape), ...backwardCases(shape)].map((one) => ({
    ...one,
    name: `${one.name} ${preset}`,
    benchmark: {},
    tolerance: {
      float32: { absolute: 1e-3, relative: 1e-4 },
      bfloat16: { absolute: 5e-2, relative: 2 ** -6 },
      reason: 'weight gradients are sums of thousands of cancelling terms',
    },
  }));
});

export const cases: readonly OpCase[] = [
  ...shapes.map(forwardCase),
  ...shapes.flatMap(backwardCases),
  ...benchmarks,
];

const small = [3, 5];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'layer_norm',
    tensors: {
      input: { shape: small },
      weight: { shape: [5] },
      bias: { shape: [5] },
      mean: { shape: [3] },
      rstd: { shape: [3] },
    },
    differentiable: ['input', 'weight', 'bias'],
    outputShape: small,
    forward: ({ input, weight, bias, mean, rstd }, output) =>
      layerNormForward({
        output,
        mean: mean!,
        rstd: rstd!,
        input: input!,
        weight: weight!,
        bias: bias!,
        epsilon,
      }),
    backward: ({ input, weight, mean, rstd }, outputGradient, gradients) =>
      layerNormBackward({
        inputGradient: gradients.input,
        weightGradient: gradients.weight,
        biasGradient: gradients.bias,
        outputGradient,
        input: input!,
        mean: mean!,
        rstd: rstd!,
        weight: weight!,
      }),
  },
];

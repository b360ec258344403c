import { layerNormBackward, layerNormForward } from '../../src/index.js';
import {
  countRows,
  declareGradients,
  epsilon,
  gradientParts,
  normBenchmarks,
  normShapes,
  normTolerance,
  rstdOfRows,
} from './norm-cases.js';
import type { GradientCase, OpCase, Tensors } from './op-case.js';

const tolerance = normTolerance('centred values');

const forwardCase = (shape: readonly number[]): OpCase => ({
  name: `layer_norm_forward [${shape}]`,
  operation: 'layer_norm_forward',
  tensors: {
    output: { shape, output: true },
    mean: { shape: [countRows(shape)], dtype: 'float32', output: true },
    rstd: { shape: [countRows(shape)], dtype: 'float32', output: true },
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
    mean: { shape: [countRows(shape)], dtype: 'float32', scale: 0.1 },
    rstd: rstdOfRows(countRows(shape)),
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

const backwardCases = (shape: readonly number[]): OpCase[] =>
  gradientParts.map((part) => ({
    name: `layer_norm_backward ${part} [${shape}]`,
    operation: 'layer_norm_backward',
    tensors: {
      ...declareGradients(part, { shape, weights: ['weightGradient', 'biasGradient'] }),
      ...backwardInputs(shape),
    },
    run: runBackward,
    tolerance,
  }));

const benchmarks = normBenchmarks(({ sequence, batch, hidden }) => {
  const shape = [sequence, batch, hidden];
  return [forwardCase(shape), ...backwardCases(shape)];
});

export const cases: readonly OpCase[] = [
  ...normShapes.map(forwardCase),
  ...normShapes.flatMap(backwardCases),
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

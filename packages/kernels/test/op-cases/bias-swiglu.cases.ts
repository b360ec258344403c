import { biasSwigluBackward, biasSwigluForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase } from './op-case.js';

/** Shapes of the output: [rows, F]. */
const shapes: ReadonlyArray<readonly [number, number]> = [
  [3, 17],
  [2, 64],
  [5, 1],
  [9, 1376],
];

const tolerance = {
  float32: { absolute: 4e-6, relative: 4e-6 },
  // |gate| is up to 15: where e^-gate is large, the rounding of e^-gate and of the quotient both show
  reason: 'exponentials to 2 ulp, multiplied by gates of up to 15',
};

interface Options {
  readonly bias?: boolean;
  readonly name?: string;
}

const forward = ([rows, width]: readonly [number, number], { bias = false, name }: Options = {}): OpCase => ({
  name: `bias_swiglu_forward ${name ?? `[${rows}, ${width}]`}${bias ? ' bias' : ''}`,
  operation: 'bias_swiglu_forward',
  tensors: {
    output: { shape: [rows, width], output: true },
    input: { shape: [rows, 2 * width], scale: 4 },
    ...(bias ? { bias: { shape: [2 * width] } } : {}),
  },
  run: ({ output, input, bias }) => biasSwigluForward({ output: output!, input: input!, bias }),
  tolerance,
});

const backward = (
  [rows, width]: readonly [number, number],
  { bias = false, name }: Options = {},
): OpCase => ({
  name: `bias_swiglu_backward ${name ?? `[${rows}, ${width}]`}${bias ? ' bias' : ''}`,
  operation: 'bias_swiglu_backward',
  tensors: {
    inputGradient: { shape: [rows, 2 * width], output: true },
    outputGradient: { shape: [rows, width] },
    input: { shape: [rows, 2 * width], scale: 4 },
    ...(bias ? { bias: { shape: [2 * width] } } : {}),
  },
  run: ({ inputGradient, outputGradient, input, bias }) =>
    biasSwigluBackward({
      inputGradient: inputGradient!,
      outputGradient: outputGradient!,
      input: input!,
      bias,
    }),
  tolerance,
});

/** A case with gates far from zero, where e^-gate overflows or vanishes. */
const extreme: OpCase = {
  ...backward([1, 8]),
  name: 'bias_swiglu_backward of extreme gates',
  tensors: {
    ...backward([1, 8]).tensors,
    input: { shape: [1, 16], values: [-1e4, -100, -90, -20, 20, 90, 100, 1e4, ...Array(8).fill(0.5)] },
  },
  tolerance: { ...tolerance, float16: { absolute: 1e-4, relative: 2 ** -9 } },
};

/** Gates and values whose products leave float32's range, or would without a sigmoid of 0. */
const farGates = [-1e38, -1e20, -100, -90, -20, 20, 1e10, 1e18];
const far = [forward, backward].map((make): OpCase => {
  const { name, tensors, ...rest } = make([1, 8]);
  return {
    ...rest,
    name: `${name} of gates to -1e38`,
    tensors: { ...tensors, input: { shape: [1, 16], values: [...farGates, ...Array(8).fill(1e20)] } },
    // float16 ends at 65504
    dtypes: ['float32', 'bfloat16'],
  };
});

// the width of the gates is two thirds of the hidden layer of a GPT, so that both have the same number of
// parameters
const benchmarks = benchmarkSizes.flatMap(({ preset, sequence, batch, feedForward }): OpCase[] => {
  const shape = [sequence * batch, (feedForward * 2) / 3] as const;
  const name = `${preset} [${shape}]`;
  return [forward, backward].map((make) => ({ ...make(shape, { name }), benchmark: {} }));
});

export const cases: readonly OpCase[] = [
  ...shapes.flatMap((shape) => [forward(shape), forward(shape, { bias: true })]),
  ...shapes.flatMap((shape) => [backward(shape), backward(shape, { bias: true })]),
  extreme,
  ...far,
  ...benchmarks,
];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'bias_swiglu',
    tensors: { input: { shape: [3, 10] }, bias: { shape: [10] } },
    differentiable: ['input'],
    outputShape: [3, 5],
    forward: ({ input, bias }, output) => biasSwigluForward({ output, input: input!, bias }),
    backward: ({ input, bias }, outputGradient, gradients) =>
      biasSwigluBackward({ inputGradient: gradients.input!, outputGradient, input: input!, bias }),
  },
];

import { rowGateBackward, rowGateForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase } from './op-case.js';

const shapes: ReadonlyArray<readonly [number, number]> = [
  [3, 17],
  [2, 64],
  [5, 1],
  [0, 16],
  [9, 512],
];

interface Options {
  readonly name?: string;
}

const forward = ([rows, hidden]: readonly [number, number], { name }: Options = {}): OpCase => ({
  name: `row_gate_forward ${name ?? `[${rows}, ${hidden}]`}`,
  operation: 'row_gate_forward',
  tensors: {
    output: { shape: [rows, hidden], output: true },
    input: { shape: [rows, hidden] },
    logits: { shape: [rows], scale: 4, dtype: 'float32' },
  },
  run: ({ output, input, logits }) => rowGateForward({ output: output!, input: input!, logits: logits! }),
});

const backward = ([rows, hidden]: readonly [number, number], { name }: Options = {}): OpCase => ({
  name: `row_gate_backward ${name ?? `[${rows}, ${hidden}]`}`,
  operation: 'row_gate_backward',
  tensors: {
    inputGradient: { shape: [rows, hidden], output: true },
    logitsGradient: { shape: [rows], output: true, dtype: 'float32' },
    outputGradient: { shape: [rows, hidden] },
    input: { shape: [rows, hidden] },
    logits: { shape: [rows], scale: 4, dtype: 'float32' },
  },
  run: ({ inputGradient, logitsGradient, outputGradient, input, logits }) =>
    rowGateBackward({
      inputGradient: inputGradient!,
      logitsGradient: logitsGradient!,
      outputGradient: outputGradient!,
      input: input!,
      logits: logits!,
    }),
});

const benchmarks = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }): OpCase[] => {
  const shape = [sequence * batch, hidden] as const;
  const name = `${preset} [${shape}]`;
  return [forward, backward].map((make) => ({ ...make(shape, { name }), benchmark: {} }));
});

export const cases: readonly OpCase[] = [
  ...shapes.flatMap((shape) => [forward(shape), backward(shape)]),
  ...benchmarks,
];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'row_gate',
    tensors: { input: { shape: [3, 5] }, logits: { shape: [3] } },
    differentiable: ['input', 'logits'],
    outputShape: [3, 5],
    forward: ({ input, logits }, output) => rowGateForward({ output, input: input!, logits: logits! }),
    backward: ({ input, logits }, outputGradient, gradients) =>
      rowGateBackward({
        inputGradient: gradients.input!,
        logitsGradient: gradients.logits!,
        outputGradient,
        input: input!,
        logits: logits!,
      }),
  },
];

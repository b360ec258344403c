import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { crossEntropy, reshape, Tape, Variable } from '../index.js';

const [rows, classes] = [3, 4];
const values = Array.from({ length: rows * classes }, (_, index) => 2 * Math.sin(3 * index + 1));
const labels = [2, 0, 3];
const weights = [0.5, 0, 2];

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });

/** Computes losses and the gradient of their weighted sum. The logits are the result of a reshape. */
function compute(
  logits: readonly number[],
  { dtype = 'float64', device = 'reference', recording = true }: Partial<Setting> = {},
) {
  const tape = new Tape({ recording });
  const input = tape.input(Tensor.from(logits, { shape: [classes, 1, rows], dtype, device }), {
    requiresGradient: true,
  });
  const targets = constant(Tensor.from(labels, { shape: [rows], dtype: 'int32', device }));
  const factors = constant(
    Tensor.from(weights, { shape: [rows], dtype: dtype === 'float64' ? dtype : 'float32', device }),
  );
  const output = tape.scope(() =>
    crossEntropy(tape, {
      logits: reshape(tape, { input, shape: [rows, classes] }),
      labels: targets,
      weights: factors,
    }),
  );
  const losses = output.tensor.toArray();
  if (recording) tape.backward(output);
  const gradient = tape.takeGradient(input);
  const result = { losses, gradient: gradient?.toArray(), shape: gradient?.shape };
  gradient?.dispose();
  for (const variable of [output, input, targets, factors]) variable.release();
  tape.dispose();
  return result;
}

interface Setting {
  readonly dtype: 'float64' | 'float32' | 'bfloat16';
  readonly device: 'reference' | 'cpu';
  readonly recording: boolean;
}

const total = (logits: readonly number[]): number =>
  compute(logits).losses.reduce((sum, loss, row) => sum + loss * weights[row]!, 0);

it('is the negative log-likelihood of the label, 0 where the weight is', () => {
  const { losses } = compute(values);
  for (const row of [0, 2]) {
    const own = values.slice(row * classes, (row + 1) * classes);
    const sum = own.reduce((before, value) => before + Math.exp(value), 0);
    // float64: a few roundings
    expect(losses[row]).toBeCloseTo(Math.log(sum) - own[labels[row]!]!, 12);
  }
  expect(losses[1]).toBe(0);
});

it('has the gradients of central differences, in the shape of its input', () => {
  const { gradient, shape } = compute(values);
  expect(shape).toEqual([classes, 1, rows]);
  const step = 1e-6;
  for (const [index, expected] of gradient!.entries()) {
    const moved = (delta: number) => total(values.map((value, i) => (i === index ? value + delta : value)));
    // the error of the finite difference is about the squared step, plus the loss's rounding error divided by
    // the step: 1e-16 / 1e-6 = 1e-10
    expect(Math.abs((moved(step) - moved(-step)) / (2 * step) - expected)).toBeLessThan(1e-8);
  }
});

it.each([
  ['float32', 1e-6],
  // 8 bits of mantissa; values and gradients are at most 2
  ['bfloat16', 2 ** -7],
] as const)('says the same on the CPU in %s, recorded or not', (dtype, tolerance) => {
  const expected = compute(values);
  const actual = compute(values, { dtype, device: 'cpu' });
  const pairs = [...actual.losses, ...actual.gradient!].entries();
  const exact = [...expected.losses, ...expected.gradient!];
  for (const [index, value] of pairs) expect(Math.abs(value - exact[index]!)).toBeLessThan(2 * tolerance);
  const evaluated = compute(values, { dtype, device: 'cpu', recording: false });
  expect(evaluated).toEqual({ losses: actual.losses, gradient: undefined, shape: undefined });
});

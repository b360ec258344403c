import { countEmulated, hasEmulationCounts } from '@mtl/tooling/emulation-counts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GeluKind, numLiveTensors, openCuda, Tensor, tidy } from '../../src/index.js';
import { linearGeluBackward, linearGeluForward, linearWeightGradient } from '../../src/operations/linear.js';

interface Sizes {
  readonly rows: number;
  readonly hidden: number;
  readonly feedForward: number;
}
const even: Sizes = { rows: 6, hidden: 16, feedForward: 24 };
// the documentation asks for rows of a multiple of 8 elements
const odd: Sizes = { rows: 6, hidden: 16, feedForward: 21 };

const tensor = (...shape: number[]): Tensor =>
  Tensor.from(new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0.5), {
    ...{ shape, dtype: 'float32', device: 'cuda' },
  });

const forward = ({ rows, hidden, feedForward }: Sizes, kind: GeluKind): (() => void) => {
  const tensors = {
    ...{ output: tensor(rows, feedForward), preactivation: tensor(rows, feedForward) },
    ...{ input: tensor(rows, hidden), weight: tensor(feedForward, hidden), bias: tensor(feedForward) },
  };
  return () => linearGeluForward({ ...tensors, kind });
};
const backward = ({ rows, hidden, feedForward }: Sizes, kind: GeluKind): (() => void) => {
  const tensors = {
    ...{ inputGradient: tensor(rows, feedForward), preactivation: tensor(rows, feedForward) },
    ...{ outputGradient: tensor(rows, hidden), weight: tensor(hidden, feedForward) },
  };
  return () => linearGeluBackward({ ...tensors, kind });
};
const weightGradient = ({ rows, hidden, feedForward }: Sizes): (() => void) => {
  const tensors = {
    ...{ weightGradient: tensor(feedForward, hidden), biasGradient: tensor(feedForward) },
    ...{ outputGradient: tensor(rows, feedForward), input: tensor(rows, hidden) },
  };
  return () => linearWeightGradient(tensors);
};

describe.skipIf(!hasEmulationCounts)('products of linear layers under emulation', () => {
  beforeAll(() => void openCuda());
  afterAll(() => expect(numLiveTensors()).toBe(0));

  // kernels of this library beside the product: none where the library for products does it all
  it.each([
    ['GELU behind a product is its epilogue', () => forward(even, 'tanh'), 0],
    ['exact GELU, which it does not offer, is a kernel', () => forward(even, 'erf'), 1],
    ['so is GELU of rows that it does not take', () => forward(odd, 'tanh'), 1],
    ["GELU's derivative behind a product is its epilogue", () => backward(even, 'tanh'), 0],
    ["exact GELU's derivative is a kernel", () => backward(even, 'erf'), 1],
    ["so is GELU's derivative of rows that it does not take", () => backward(odd, 'tanh'), 1],
    ["a bias's gradient comes with the product and is added", () => weightGradient(even), 1],
  ])('%s', (_, make, kernels) => {
    tidy(() => {
      const run = make();
      run(); // plans and scratch memory
      expect(countEmulated(run)).toEqual({
        ...{ kernels, synchronizations: 0, copiesToDevice: 0, copiesToHost: 0, memoryCalls: 0 },
      });
    });
  });
});

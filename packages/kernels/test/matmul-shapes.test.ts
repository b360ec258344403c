import { describe, expect, it } from 'vitest';
import { type Device, matmul, Tensor, tidy } from '../src/index.js';
import { refusal } from './support/refusals.js';

type Shape = readonly number[];

const ones = (shape: Shape, device: Device = 'cpu'): Tensor =>
  Tensor.from(new Float32Array(shape.reduce((size, length) => size * length, 1)).fill(1), {
    shape,
    dtype: 'float32',
    device,
  });

describe.each(['cpu', 'reference'] as const)('a matmul of no terms on %s', (device) => {
  /** Returns the values of an output of ones after a matmul with a bias of 1, 2, ... into it. */
  const into = (output: Shape, left: Shape, right: Shape, flags: object = {}): readonly number[] =>
    tidy(() => {
      const result = ones(output, device);
      const numColumns = output.at(-1)!;
      const bias = Tensor.from(
        Array.from({ length: numColumns }, (_, column) => column + 1),
        { shape: [numColumns], dtype: 'float32', device },
      );
      matmul({ output: result, left: ones(left, device), right: ones(right, device), bias, ...flags });
      return [...(result.toArray() as readonly number[])];
    });

  it.each<[string, Shape, Shape, object]>([
    ['rows by columns', [2, 0], [0, 3], {}],
    ['transposed on the left', [0, 2], [0, 3], { transposeLeft: true }],
    ['transposed on the right', [2, 0], [3, 0], { transposeRight: true }],
  ])('is the bias: %s', (_, left, right, flags) => {
    expect(into([2, 3], left, right, flags)).toEqual([1, 2, 3, 1, 2, 3]);
    expect(into([2, 3], left, right, { ...flags, accumulate: true })).toEqual([2, 3, 4, 2, 3, 4]);
  });

  it('is the bias in every row of a batch, with a right operand of its own or one for all', () => {
    const rows = [1, 2, 1, 2, 1, 2, 1, 2];
    expect(into([2, 2, 2], [2, 2, 0], [2, 0, 2])).toEqual(rows);
    expect(into([2, 2, 2], [2, 2, 0], [0, 2])).toEqual(rows);
    expect(into([2, 2], [3, 0, 2], [3, 0, 2], { transposeLeft: true })).toEqual([1, 2, 1, 2]);
  });

  it('may have no rows, no columns and no batch', () => {
    expect(into([0, 3], [0, 2], [2, 3])).toEqual([]);
    expect(into([2, 0], [2, 3], [3, 0])).toEqual([]);
    expect(into([0, 2, 2], [0, 2, 3], [0, 3, 2])).toEqual([]);
  });
});

describe('a matmul of shapes that do not fit says which', () => {
  const message = (output: Shape, left: Shape, right: Shape, flags: object = {}): string =>
    tidy(() =>
      refusal(() => matmul({ output: ones(output), left: ones(left), right: ones(right), ...flags })),
    );
  const [transposeLeft, transposeRight] = [{ transposeLeft: true }, { transposeRight: true }];

  it.each<[Shape, Shape, Shape, object, string]>([
    [
      [4, 3],
      [4, 2],
      [8, 3],
      {},
      'left [4, 2] has 2 columns, right [8, 3] has 8 rows: 2 is not 8, expected as many',
    ],
    [
      [4, 3],
      [4, 2],
      [3, 2],
      {},
      'left [4, 2] has 2 columns, right [3, 2] has 3 rows: 2 is not 3; transposeRight: true fits',
    ],
    [
      [2, 3],
      [4, 2],
      [4, 3],
      {},
      'left [4, 2] has 2 columns, right [4, 3] has 4 rows: 2 is not 4; transposeLeft: true fits',
    ],
    [
      [4, 3],
      [4, 2],
      [2, 3],
      transposeRight,
      'left [4, 2] has 2 columns, right [2, 3] transposed has 3 rows: 2 is not 3; transposeRight: false fits',
    ],
    [
      [2, 3],
      [2, 4],
      [4, 3],
      transposeLeft,
      'left [2, 4] transposed has 2 columns, right [4, 3] has 4 rows: 2 is not 4; transposeLeft: false fits',
    ],
    [
      [2, 0],
      [2, 0],
      [3, 0],
      {},
      'left [2, 0] has 0 columns, right [3, 0] has 3 rows: 0 is not 3; transposeRight: true fits',
    ],
    [
      [2, 4, 3],
      [2, 4, 2],
      [5, 2, 3],
      {},
      'left [2, 4, 2] and right [5, 2, 3] differ in leading dimensions, expected the same, or two dimensions of right',
    ],
    [[4, 4], [4, 2], [2, 3], {}, 'output has shape [4, 4], expected [4, 3]'],
    [[3, 4, 3], [2, 4, 2], [2, 3], {}, 'output has shape [3, 4, 3], expected [2, 4, 3]'],
    [[3, 3], [5, 4, 2], [5, 4, 3], transposeLeft, 'output has shape [3, 3], expected [2, 3]'],
    [[2, 4, 3], [2, 2, 4], [2, 2, 5], transposeLeft, 'output has shape [2, 4, 3], expected [2, 4, 5]'],
  ])('output %j, left %j, right %j, %j', (output, left, right, flags, expected) => {
    expect(message(output, left, right, flags)).toBe(`MTL_SHAPE: matmul: ${expected}`);
  });
});

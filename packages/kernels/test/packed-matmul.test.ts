import { describe, expect, it } from 'vitest';
import { cast, type DType, matmul, Tensor, tidy } from '../src/index.js';

const numRows = 512;

/** Small integers, which both data types hold exactly. */
const valueAt = (index: number): number => (index % 251) - 125;

/** The row of `right` that row `row` of the output copies. */
const chosenRow = (row: number, inner: number): number => (row * 7919) % inner;

interface Case {
  readonly inner: number;
  readonly numColumns: number;
  readonly dtype: DType;
}

function tensorOf(values: Float32Array, shape: number[], dtype: DType): Tensor {
  const input = Tensor.from(values, { shape, dtype: 'float32' });
  if (dtype === 'float32') return input;
  const output = Tensor.empty({ shape, dtype });
  cast({ output, input });
  return output;
}

/** output + left x right + bias, where each row of left is a one among zeros. */
function chooseRows({ inner, numColumns, dtype }: Case): ArrayLike<number | bigint> {
  return tidy(() => {
    const oneHot = new Float32Array(numRows * inner);
    for (let row = 0; row < numRows; row++) oneHot[row * inner + chosenRow(row, inner)] = 1;
    const output = tensorOf(
      new Float32Array(numRows * numColumns).fill(1000),
      [numRows, numColumns],
      'float32',
    );
    const right = tensorOf(
      Float32Array.from({ length: inner * numColumns }, (_, index) => valueAt(index)),
      [inner, numColumns],
      dtype,
    );
    const bias = tensorOf(
      Float32Array.from({ length: numColumns }, (_, column) => column),
      [numColumns],
      'float32',
    );
    const left = tensorOf(oneHot, [numRows, inner], dtype);
    matmul({ output, left, right, bias, accumulate: true });
    return output.read();
  });
}

// The sizes from which oneDNN is given the right operand in its own layout; the last ones in several slices.
describe.each<Case>([
  { inner: 4096, numColumns: 256, dtype: 'float32' },
  { inner: 4096, numColumns: 256, dtype: 'bfloat16' },
  { inner: 12288, numColumns: 768, dtype: 'float32' },
  { inner: 24576, numColumns: 768, dtype: 'bfloat16' },
])('a matmul by a large $dtype matrix [$inner, $numColumns]', (sizes) => {
  it('multiplies, adds the bias and accumulates exactly', () => {
    const output = chooseRows(sizes);
    let numWrong = 0;
    for (let row = 0; row < numRows; row++) {
      const from = chosenRow(row, sizes.inner) * sizes.numColumns;
      for (let column = 0; column < sizes.numColumns; column++) {
        const expected = 1000 + valueAt(from + column) + column;
        if (output[row * sizes.numColumns + column] !== expected) numWrong++;
      }
    }
    expect(numWrong).toBe(0);
  });
});

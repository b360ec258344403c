import { describe, expect, it } from 'vitest';
import { cast, type DType, matmul, Tensor, tidy } from '../src/index.js';

const numRows = 512;

/** Small integers, which all data types hold exactly, as they do the sums below that they are outputs of. */
const valueAt = (index: number): number => (index % 251) - 125;
const biasAt = (column: number): number => column % 97;
const outputBefore = 1000;

/** The row of `right` that row `row` of the output copies. */
const chosenRow = (row: number, inner: number): number => (row * 7919) % inner;

interface Case {
  readonly inner: number;
  readonly numColumns: number;
  readonly dtype: DType;
  readonly outputDtype: DType;
  readonly transposed: boolean;
  readonly accumulate: boolean;
}

function tensorOf(values: Float32Array, shape: number[], dtype: DType): Tensor {
  const input = Tensor.from(values, { shape, dtype: 'float32' });
  if (dtype === 'float32') return input;
  const output = Tensor.empty({ shape, dtype });
  cast({ output, input });
  return output;
}

/** A matrix, stored transposed or not. */
function matrixOf(
  [rows, columns]: readonly [number, number],
  { dtype, transposed }: Case,
  value: (row: number, column: number) => number,
): Tensor {
  const [storedRows, storedColumns] = transposed ? [columns, rows] : [rows, columns];
  const values = Float32Array.from({ length: rows * columns }, (_, index) => {
    const [row, column] = [Math.floor(index / storedColumns), index % storedColumns];
    return transposed ? value(column, row) : value(row, column);
  });
  return tensorOf(values, [storedRows, storedColumns], dtype);
}

/** output + left x right + bias, where each row of left is a one among zeros. */
function chooseRows(sizes: Case): ArrayLike<number | bigint> {
  const { inner, numColumns, outputDtype, transposed, accumulate } = sizes;
  return tidy(() => {
    const before = new Float32Array(numRows * numColumns).fill(outputBefore);
    const output = tensorOf(before, [numRows, numColumns], outputDtype);
    const left = matrixOf([numRows, inner], sizes, (row, index) => (chosenRow(row, inner) === index ? 1 : 0));
    const right = matrixOf([inner, numColumns], sizes, (index, column) =>
      valueAt(index * numColumns + column),
    );
    const biases = Float32Array.from({ length: numColumns }, (_, column) => biasAt(column));
    const bias = tensorOf(biases, [numColumns], outputDtype);
    const transposes = { transposeLeft: transposed, transposeRight: transposed };
    matmul({ output, left, right, bias, accumulate, ...transposes });
    if (outputDtype === 'float32') return output.read();
    const widened = Tensor.empty({ shape: output.shape, dtype: 'float32' });
    cast({ output: widened, input: output });
    return widened.read();
  });
}

const usual = { outputDtype: 'float32', transposed: false, accumulate: true } as const;

// On a CPU: the sizes from which oneDNN is given the right operand in its own layout, in several parts of the
// inner dimension or of the columns; and those from which operands that it does not multiply (float16, and
// bfloat16 without AVX-512) are converted to float32 in blocks, [512, 4100] x [4100, 2200] in 2 x 3 of them.
describe.each<Case>([
  { ...usual, inner: 4096, numColumns: 256, dtype: 'float32' },
  { ...usual, inner: 4096, numColumns: 256, dtype: 'bfloat16', accumulate: false },
  { ...usual, inner: 6144, numColumns: 768, dtype: 'float32', accumulate: false },
  { ...usual, inner: 12288, numColumns: 768, dtype: 'bfloat16' },
  { ...usual, inner: 1024, numColumns: 6144, dtype: 'float32' },
  { ...usual, inner: 4100, numColumns: 2200, dtype: 'float16', accumulate: false },
  { ...usual, inner: 4100, numColumns: 2200, dtype: 'float16', outputDtype: 'float16' },
  {
    ...usual,
    inner: 4100,
    numColumns: 2200,
    dtype: 'float16',
    outputDtype: 'float16',
    transposed: true,
    accumulate: false,
  },
])(
  'a matmul by a large $dtype matrix [$inner, $numColumns] into $outputDtype, transposed: $transposed',
  (sizes) => {
    it(`multiplies, adds the bias${sizes.accumulate ? ' and accumulates' : ''} exactly`, () => {
      const output = chooseRows(sizes);
      let numWrong = 0;
      for (let row = 0; row < numRows; row++) {
        const from = chosenRow(row, sizes.inner) * sizes.numColumns;
        for (let column = 0; column < sizes.numColumns; column++) {
          const expected = (sizes.accumulate ? outputBefore : 0) + valueAt(from + column) + biasAt(column);
          if (output[row * sizes.numColumns + column] !== expected) numWrong++;
        }
      }
      expect(numWrong).toBe(0);
    });
  },
);

it('multiplies the matrices of a batch that is converted matrix by matrix as each of them', () => {
  const [batch, rows, inner, columns] = [3, 8, 1600, 1000];
  const dtype = 'float16';
  tidy(() => {
    const values = (size: number): Float32Array =>
      Float32Array.from({ length: size }, (_, index) => valueAt(index * 31) / 64);
    const left = tensorOf(values(batch * rows * inner), [batch, rows, inner], dtype);
    const right = tensorOf(values(batch * inner * columns), [batch, inner, columns], dtype);
    const output = Tensor.empty({ shape: [batch, rows, columns], dtype });
    matmul({ output, left, right });
    const expected = Array.from({ length: batch }, (_, matrix) => {
      const one = Tensor.empty({ shape: [rows, columns], dtype });
      matmul({
        output: one,
        left: left.view({ offset: matrix * rows * inner, shape: [rows, inner] }),
        right: right.view({ offset: matrix * inner * columns, shape: [inner, columns] }),
      });
      return one.toArray();
    });
    expect(output.toArray()).toEqual(expected.flat());
  });
});

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  cast,
  type DType,
  hostInformation,
  matmul,
  setInstructionSet,
  setMatmulLibrary,
  setNumThreads,
  Tensor,
  type TypedArray,
  tidy,
} from '../src/index.js';

const { numThreads, detectedInstructionSet } = hostInformation();
const supported = hostInformation().usableInstructionSets;
afterEach(() => {
  setInstructionSet(detectedInstructionSet);
  setNumThreads(numThreads);
});

beforeAll(() => setMatmulLibrary('own'));
afterAll(() => setMatmulLibrary('faster'));

/** Returns small integers, which all data types represent exactly, like the sums below. */
const valueAt = (index: number): number => (index % 251) - 125;
const biasAt = (column: number): number => column % 97;
const outputBefore = 1000;

/** Returns the row of `right` that row `row` of the output copies. */
const chosenRow = (row: number, inner: number): number => (row * 7919) % inner;

interface Case {
  /** Rows of the output. */
  readonly numRows: number;
  readonly inner: number;
  readonly numColumns: number;
  readonly dtype: DType;
  readonly outputDtype: DType;
  readonly transposed: boolean;
  readonly accumulate: boolean;
}

function makeTensor(values: Float32Array, shape: number[], dtype: DType): Tensor {
  const input = Tensor.from(values, { shape, dtype: 'float32' });
  if (dtype === 'float32') return input;
  const output = Tensor.empty({ shape, dtype });
  cast({ output, input });
  return output;
}

/** Returns zeros with a one in each row at its `chosenRow`, stored transposed or not. */
function choices({ numRows, inner, dtype, transposed }: Case): Tensor {
  const values = new Float32Array(numRows * inner);
  for (let row = 0; row < numRows; row++) {
    const index = chosenRow(row, inner);
    values[transposed ? index * numRows + row : row * inner + index] = 1;
  }
  return makeTensor(values, transposed ? [inner, numRows] : [numRows, inner], dtype);
}

/** Returns the matrix from which rows are chosen, stored transposed or not. */
function makeMatrix({ inner, numColumns, dtype, transposed }: Case): Tensor {
  const values = new Float32Array(inner * numColumns);
  for (let row = 0, flat = 0; row < inner; row++) {
    for (let column = 0; column < numColumns; column++, flat++) {
      values[transposed ? column * inner + row : flat] = valueAt(flat);
    }
  }
  return makeTensor(values, transposed ? [numColumns, inner] : [inner, numColumns], dtype);
}

/** Computes output + left x right + bias, where each row of left is a one among zeros. */
function chooseRows(sizes: Case): ArrayLike<number | bigint> {
  const { numRows, numColumns, outputDtype, transposed, accumulate } = sizes;
  return tidy(() => {
    const before = new Float32Array(numRows * numColumns).fill(outputBefore);
    const output = makeTensor(before, [numRows, numColumns], outputDtype);
    const left = choices(sizes);
    const right = makeMatrix(sizes);
    const biases = Float32Array.from({ length: numColumns }, (_, column) => biasAt(column));
    const bias = makeTensor(biases, [numColumns], outputDtype);
    const transposes = { transposeLeft: transposed, transposeRight: transposed };
    matmul({ output, left, right, bias, accumulate, ...transposes });
    if (outputDtype === 'float32') return output.read();
    const widened = Tensor.empty({ shape: output.shape, dtype: 'float32' });
    cast({ output: widened, input: output });
    return widened.read();
  });
}

// 517 is not a multiple of the sizes of a tile or a block.
const usual = { numRows: 517, outputDtype: 'float32', transposed: false, accumulate: true } as const;

// Several blocks of the inner dimension, chunks of the columns and blocks of the rows, with and without
// remainders; outputs of 16 bits whose sums wait for the next block in float32.
const cases: Case[] = [
  { ...usual, inner: 4096, numColumns: 256, dtype: 'float32' },
  { ...usual, inner: 4096, numColumns: 256, dtype: 'bfloat16', accumulate: false },
  // whole tiles of AMX, which reads such rows without a packed copy
  { ...usual, numRows: 528, inner: 1664, numColumns: 770, dtype: 'bfloat16' },
  { ...usual, inner: 6145, numColumns: 770, dtype: 'float32', accumulate: false },
  { ...usual, inner: 1024, numColumns: 6144, dtype: 'float32', transposed: true },
  { ...usual, inner: 1101, numColumns: 515, dtype: 'bfloat16', outputDtype: 'bfloat16', accumulate: false },
  // a weight gradient: tiles of AMX read rows of the left operand, which are stored as columns
  { ...usual, inner: 2085, numColumns: 515, dtype: 'bfloat16', transposed: true },
  {
    ...usual,
    inner: 12288,
    numColumns: 770,
    dtype: 'bfloat16',
    outputDtype: 'bfloat16',
    accumulate: false,
  },
  { ...usual, inner: 4100, numColumns: 1001, dtype: 'float16', outputDtype: 'float16', transposed: true },
];

describe.each(supported.flatMap((instructionSet) => cases.map((sizes) => ({ ...sizes, instructionSet }))))(
  'a matmul of $instructionSet by a $dtype matrix [$inner, $numColumns] into $outputDtype, transposed: $transposed',
  (sizes) => {
    it(`multiplies, adds the bias${sizes.accumulate ? ' and accumulates' : ''} exactly`, () => {
      setInstructionSet(sizes.instructionSet);
      const output = chooseRows(sizes);
      let numWrong = 0;
      for (let row = 0; row < sizes.numRows; row++) {
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

/** Numbers whose sums depend on their order. */
const unevenNumbers = Float32Array.from(
  { length: 900 * 1700 },
  (_, index) => Math.sin(index * 12.9898) * 1.7,
);
const uneven = (size: number): Float32Array => unevenNumbers.subarray(0, size);

describe.each<DType>(['float32', 'bfloat16', 'float16'])('every element of a %s matmul', (dtype) => {
  const [rows, inner, columns] = [150, 1700, 900];
  const multiply = (countRows: number, firstColumn: number, numColumns: number): TypedArray =>
    tidy(() => {
      const left = makeTensor(uneven(rows * inner), [rows, inner], dtype).view({ shape: [countRows, inner] });
      const right = makeTensor(uneven(columns * inner), [columns, inner], dtype);
      const output = Tensor.empty({ shape: [countRows, numColumns], dtype });
      const ofColumns = right.view({ offset: firstColumn * inner, shape: [numColumns, inner] });
      matmul({ output, left, right: ofColumns, transposeRight: true });
      return output.read();
    });

  it('has the same bits with any number of threads', () => {
    const [one, ...others] = [1, 2, 3, 7].map((threads) => {
      setNumThreads(threads);
      return multiply(rows, 0, columns);
    });
    for (const other of others) expect(other).toEqual(one);
  });

  it('has the same bits in a matrix of fewer rows and columns', () => {
    const all = multiply(rows, 0, columns);
    const [countRows, firstColumn, numColumns] = [37, 111, 53];
    const expected = Array.from({ length: countRows }, (_, row) => {
      const first = row * columns + firstColumn;
      return [...all.subarray(first, first + numColumns)];
    });
    expect([...multiply(countRows, firstColumn, numColumns)]).toEqual(expected.flat());
  });
});

// Matmuls as in generation: sums along the rows of the weights, for all remainders.
it.each(
  supported.flatMap((instructionSet) =>
    [1, 2, 3, 4, 5, 18, 32].flatMap((rows) =>
      (['float32', 'bfloat16', 'float16'] as const).map((dtype) => ({ instructionSet, rows, dtype })),
    ),
  ),
)('multiplies $rows rows of $dtype exactly with $instructionSet', ({ instructionSet, rows, dtype }) => {
  setInstructionSet(instructionSet);
  const [inner, columns] = [rows > 4 ? 311 : 205, 27]; // no multiple of 7, the period of the values
  const small = (index: number): number => (index % 7) - 3;
  const values = (size: number): Float32Array =>
    Float32Array.from({ length: size }, (_, index) => small(index));
  tidy(() => {
    const left = makeTensor(values(rows * inner), [rows, inner], dtype);
    const right = makeTensor(values(columns * inner), [columns, inner], dtype);
    const bias = makeTensor(values(columns), [columns], 'float32');
    const output = makeTensor(new Float32Array(rows * columns).fill(5), [rows, columns], 'float32');
    matmul({ output, left, right, bias, transposeRight: true, accumulate: true });
    const expected = Array.from({ length: rows * columns }, (_, at) => {
      const [row, column] = [Math.floor(at / columns), at % columns];
      let sum = 5 + small(column);
      for (let i = 0; i < inner; i++) sum += small(row * inner + i) * small(column * inner + i);
      return sum;
    });
    expect(output.toArray()).toEqual(expected);
  });
});

it('multiplies the matrices of a batch as single matrices', () => {
  const [batch, rows, inner, columns] = [3, 8, 1600, 1000];
  const dtype = 'float16';
  tidy(() => {
    const values = (size: number): Float32Array =>
      Float32Array.from({ length: size }, (_, index) => valueAt(index * 31) / 64);
    const left = makeTensor(values(batch * rows * inner), [batch, rows, inner], dtype);
    const right = makeTensor(values(batch * inner * columns), [batch, inner, columns], dtype);
    const output = Tensor.empty({ shape: [batch, rows, columns], dtype });
    matmul({ output, left, right });
    const expected = Array.from({ length: batch }, (_, matrix) => {
      const one = Tensor.empty({ shape: [rows, columns], dtype });
      matmul({
        output: one,
        left: left.view({ offset: matrix * rows * inner, shape: [rows, inner] }),
        right: right.view({ offset: matrix * inner * columns, shape: [inner, columns] }),
      });
      return [...one.read()];
    });
    expect([...output.read()]).toEqual(expected.flat());
  });
});

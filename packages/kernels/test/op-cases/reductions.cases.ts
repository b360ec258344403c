import { sumOfSquares, sumRows, weightedSum } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase } from './op-case.js';

const shapes = [
  [7, 5],
  [3, 4, 64],
  [130, 100],
];

const rowSums: OpCase[] = shapes.flatMap((shape) =>
  [false, true].map((accumulate) => ({
    name: `sum_rows [${shape}]${accumulate ? ' accumulate' : ''}`,
    operation: 'sum_rows',
    tensors: {
      output: { shape: [shape.at(-1)!], dtype: 'float32', output: true, accumulated: accumulate },
      input: { shape },
    },
    run: ({ output, input }) => sumRows({ output: output!, input: input!, accumulate }),
    tolerance: {
      float32: { absolute: 2e-5, relative: 1e-5 },
      bfloat16: { absolute: 2e-5, relative: 1e-5 },
      reason:
        'sums of up to 130 cancelling N(0, 1) values; inputs are equal in both dtypes, the sum is float32',
    },
  })),
);

// more partial sums of a column than a block of device cuda reads at a time, each of more rows than a block
// reads
const manyRows: OpCase = {
  name: 'sum_rows [16500, 16] accumulate',
  operation: 'sum_rows',
  tensors: {
    output: { shape: [16], dtype: 'float32', output: true, accumulated: true },
    input: { shape: [16500, 16] },
  },
  run: ({ output, input }) => sumRows({ output: output!, input: input!, accumulate: true }),
  dtypes: ['float32', 'bfloat16'],
  tolerance: {
    float32: { absolute: 6e-4, relative: 1e-5 },
    bfloat16: { absolute: 6e-4, relative: 1e-5 },
    reason: 'sums of up to 3 sqrt(16500) = 385, which float32 rounds by 1.5e-5, some forty times',
  },
};

const squares: OpCase[] = [1, 100, 10000].flatMap((size) =>
  [false, true].map((accumulate) => ({
    name: `sum_of_squares [${size}]${accumulate ? ' accumulate' : ''}`,
    operation: 'sum_of_squares',
    tensors: {
      output: { shape: [1], dtype: 'float64', output: true, accumulated: accumulate },
      input: { shape: [size], dtype: 'float32' },
    },
    run: ({ output, input }) => sumOfSquares({ output: output!, input: input!, accumulate }),
    dtypes: ['float32'],
  })),
);

const weighted: OpCase[] = [1, 100, 5000].map((size) => ({
  name: `weighted_sum [${size}]`,
  operation: 'weighted_sum',
  tensors: {
    output: { shape: [1], dtype: 'float64', output: true },
    values: { shape: [size], dtype: 'float32' },
    weights: { shape: [size], dtype: 'float32', values: 'uniform' },
  },
  run: ({ output, values, weights }) => weightedSum({ output: output!, values: values!, weights: weights! }),
  dtypes: ['float32'],
  tolerance: {
    float32: { absolute: 1e-12, relative: 1e-13 },
    reason:
      'exact products of two floats, 5000 products added in double in another order: 5000 * 2^-53 at most',
  },
}));

const benchmarks: OpCase[] = benchmarkSizes.flatMap(
  ({ preset, sequence, batch, feedForward, parameters }): OpCase[] => [
    {
      name: `sum_rows ${preset} [${sequence * batch}, ${feedForward}]`,
      operation: 'sum_rows',
      tensors: {
        output: { shape: [feedForward], dtype: 'float32', output: true },
        input: { shape: [sequence * batch, feedForward] },
      },
      run: ({ output, input }) => sumRows({ output: output!, input: input! }),
      benchmark: {},
      tolerance: {
        float32: { absolute: 1e-3, relative: 1e-5 },
        bfloat16: { absolute: 1e-3, relative: 1e-5 },
        float16: { absolute: 1e-3, relative: 1e-5 },
        reason: 'sums of thousands of cancelling N(0, 1) values in float32',
      },
    },
    {
      name: `sum_of_squares ${preset} [${parameters}]`,
      operation: 'sum_of_squares',
      tensors: {
        output: { shape: [1], dtype: 'float64', output: true },
        input: { shape: [parameters], dtype: 'float32' },
      },
      run: ({ output, input }) => sumOfSquares({ output: output!, input: input! }),
      dtypes: ['float32'],
      benchmark: {},
    },
  ],
);

export const cases: readonly OpCase[] = [...rowSums, manyRows, ...squares, ...weighted, ...benchmarks];

import { sumOfSquares, sumRows } from '../../src/index.js';
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

export const cases: readonly OpCase[] = [...rowSums, ...squares];

import { matmul } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase, Tolerance } from './op-case.js';

const booleans = [false, true];

// Products of N(0, 1) values: rounding grows with sqrt(K); 64 terms of size 1 give sums of size 8.
const tolerance = {
  float32: { absolute: 1e-5, relative: 2e-6 } satisfies Tolerance,
  bfloat16: { absolute: 2e-2, relative: 2 ** -7 } satisfies Tolerance,
  float16: { absolute: 4e-3, relative: 2 ** -9 } satisfies Tolerance,
  reason:
    'sums of K products of N(0, 1) values, cancelling: the error is relative to sqrt(K), not to the result',
};

function layout(rows: number, columns: number, transposed: boolean): number[] {
  return transposed ? [columns, rows] : [rows, columns];
}

const transpositions: OpCase[] = booleans.flatMap((transposeLeft) =>
  booleans.flatMap((transposeRight) =>
    booleans.flatMap((accumulate) =>
      booleans.map((withBias) => ({
        name: `matmul ${transposeLeft ? 'T' : 'N'}${transposeRight ? 'T' : 'N'}${accumulate ? ' accumulate' : ''}${withBias ? ' bias' : ''}`,
        operation: 'matmul',
        tensors: {
          output: { shape: [9, 21], output: true, accumulated: accumulate },
          left: { shape: layout(9, 33, transposeLeft) },
          right: { shape: layout(33, 21, transposeRight) },
          ...(withBias ? { bias: { shape: [21] } } : {}),
        },
        run: ({ output, left, right, bias }) =>
          matmul({
            output: output!,
            left: left!,
            right: right!,
            bias,
            transposeLeft,
            transposeRight,
            accumulate,
          }),
        tolerance,
      })),
    ),
  ),
);

const folded: OpCase[] = [
  {
    name: 'matmul rows folded [5, 3, 16] x [16, 7]',
    operation: 'matmul',
    tensors: {
      output: { shape: [5, 3, 7], output: true },
      left: { shape: [5, 3, 16] },
      right: { shape: [16, 7] },
    },
    run: ({ output, left, right }) => matmul({ output: output!, left: left!, right: right! }),
    tolerance,
  },
  {
    name: 'matmul weight gradient [5, 3, 8]^T x [5, 3, 6] into float32',
    operation: 'matmul',
    tensors: {
      output: { shape: [8, 6], dtype: 'float32', output: true, accumulated: true },
      left: { shape: [5, 3, 8] },
      right: { shape: [5, 3, 6] },
    },
    run: ({ output, left, right }) =>
      matmul({ output: output!, left: left!, right: right!, transposeLeft: true, accumulate: true }),
    tolerance,
  },
  {
    name: 'matmul batched [2, 3, 4, 8] x [2, 3, 8, 5]',
    operation: 'matmul',
    tensors: {
      output: { shape: [2, 3, 4, 5], output: true },
      left: { shape: [2, 3, 4, 8] },
      right: { shape: [2, 3, 8, 5] },
    },
    run: ({ output, left, right }) => matmul({ output: output!, left: left!, right: right! }),
    tolerance,
  },
  {
    name: 'matmul batched, right transposed, bias',
    operation: 'matmul',
    tensors: {
      output: { shape: [3, 4, 5], output: true },
      left: { shape: [3, 4, 8] },
      right: { shape: [3, 5, 8] },
      bias: { shape: [5] },
    },
    run: ({ output, left, right, bias }) =>
      matmul({ output: output!, left: left!, right: right!, bias, transposeRight: true }),
    tolerance,
  },
];

// The three matmuls of the first linear layer of the MLP: Y = X W^T + b, dX = dY W, dW += dY^T X.
const benchmarks: OpCase[] = benchmarkSizes.flatMap(
  ({ preset, sequence, batch, hidden, feedForward }): OpCase[] => {
    const tokens = sequence * batch;
    const wide = { shape: [tokens, feedForward] };
    const narrow = { shape: [tokens, hidden] };
    const weight = { shape: [feedForward, hidden] };
    const common = {
      operation: 'matmul',
      tolerance,
      benchmark: { flops: 2 * tokens * hidden * feedForward },
    };
    return [
      {
        ...common,
        name: `matmul forward ${preset} [${tokens}, ${hidden}] x [${hidden}, ${feedForward}]`,
        tensors: {
          output: { ...wide, output: true },
          left: narrow,
          right: weight,
          bias: { shape: [feedForward] },
        },
        run: ({ output, left, right, bias }) =>
          matmul({ output: output!, left: left!, right: right!, bias, transposeRight: true }),
      },
      {
        ...common,
        name: `matmul input gradient ${preset} [${tokens}, ${feedForward}] x [${feedForward}, ${hidden}]`,
        tensors: { output: { ...narrow, output: true }, left: wide, right: weight },
        run: ({ output, left, right }) => matmul({ output: output!, left: left!, right: right! }),
      },
      {
        ...common,
        name: `matmul weight gradient ${preset} [${feedForward}, ${tokens}] x [${tokens}, ${hidden}]`,
        tensors: {
          output: { ...weight, dtype: 'float32', output: true, accumulated: true },
          left: wide,
          right: narrow,
        },
        run: ({ output, left, right }) =>
          matmul({ output: output!, left: left!, right: right!, transposeLeft: true, accumulate: true }),
      },
    ];
  },
);

export const cases: readonly OpCase[] = [...transpositions, ...folded, ...benchmarks];

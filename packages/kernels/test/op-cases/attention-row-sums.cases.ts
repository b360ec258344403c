import { attentionRowSums } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase } from './op-case.js';

/** [S, B, A, D], packed [T, A, D]: one row, whole and partial vectors, heads wider than a warp's loads. */
const shapes: ReadonlyArray<readonly number[]> = [
  [1, 1, 1, 1],
  [33, 2, 3, 64],
  [10, 3, 2, 19],
  [7, 1, 4, 128],
  [5, 1, 2, 260],
  [41, 3, 24],
  [3, 5, 40],
  [0, 2, 1, 8],
];

const makeCase = (shape: readonly number[], isExact: boolean): OpCase => ({
  name: `attention_row_sums [${shape}]${isExact ? ' of an output in float32' : ''}`,
  operation: 'attention_row_sums',
  tensors: {
    rowSums: { shape: [...shape.slice(1, -1), shape[0]!], dtype: 'float32', output: true },
    output: { shape, ...(isExact && { dtype: 'float32' }) },
    outputGradient: { shape },
  },
  run: ({ rowSums, output, outputGradient }) =>
    attentionRowSums({ rowSums: rowSums!, output: output!, outputGradient: outputGradient! }),
});

const benchmarks = benchmarkSizes.map(({ preset, sequence, batch, hidden }): OpCase => {
  const one = makeCase([sequence, batch, 4, hidden / 4], false);
  return { ...one, name: `attention_row_sums ${preset}`, benchmark: {} };
});

export const cases: readonly OpCase[] = [
  ...shapes.map((shape) => makeCase(shape, false)),
  ...shapes.slice(1, 3).map((shape) => makeCase(shape, true)),
  ...benchmarks,
];

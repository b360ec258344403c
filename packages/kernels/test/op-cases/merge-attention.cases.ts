import { mergeAttention, tidy } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase, TensorSpec } from './op-case.js';

/** S positions, B micro-batch (none: packed), A heads, D head size. */
interface Variant {
  readonly name: string;
  readonly positions: number;
  readonly batch?: number;
  readonly heads: number;
  readonly headSize: number;
  /**
   * The numbers of positions before and after the merged positions in the whole sequence, in both statistics.
   */
  readonly around?: readonly [before: number, after: number];
}

const variants: Variant[] = [
  { name: 'one row', positions: 1, batch: 1, heads: 1, headSize: 1 },
  { name: 'whole vectors', positions: 33, batch: 2, heads: 3, headSize: 64 },
  { name: 'odd sizes', positions: 10, batch: 3, heads: 2, headSize: 19 },
  { name: 'wide heads', positions: 5, batch: 1, heads: 2, headSize: 260 },
  { name: 'packed', positions: 41, heads: 3, headSize: 24 },
  { name: 'some positions', positions: 12, batch: 2, heads: 3, headSize: 16, around: [20, 7] },
  { name: 'some packed positions', positions: 12, heads: 5, headSize: 40, around: [3, 1] },
  { name: 'no rows', positions: 0, batch: 2, heads: 1, headSize: 8 },
];

/** Statistics of two parts: far apart and close together, so large that e^x overflows, and without keys. */
const whole = [0.3, 200, -200, -1e30, -1e30, 5, 88, 1e4, -3];
const part = [0.1, -200, 200, -1e30, 7, -1e30, 90, 1e4 + 1, -700, 2];

function makeCase(variant: Variant): OpCase {
  const { name, positions, batch, heads, headSize, around: [before, after] = [0, 0] } = variant;
  const isPacked = batch === undefined;
  const all = before + positions + after;
  const rows = isPacked ? [positions, heads, headSize] : [positions, batch, heads, headSize];
  const leading = isPacked ? [heads] : [batch, heads];
  const statistics = (values: readonly number[]): TensorSpec => ({
    shape: [...leading, all],
    values: (index) => values[index % values.length]!,
  });
  return {
    name: `merge_attention ${name} [${rows}]`,
    operation: 'merge_attention',
    tensors: {
      output: { shape: rows, output: true, accumulated: true },
      logSumExp: { ...statistics(whole), output: true, accumulated: true },
      partOutput: { shape: rows },
      partLogSumExp: statistics(part),
    },
    run: ({ output, logSumExp, partOutput, partLogSumExp }) =>
      tidy(() => {
        const [whole, part] = [logSumExp!, partLogSumExp!].map((tensor) =>
          before + after === 0
            ? tensor
            : tensor.strided({
                offset: before,
                shape: [...leading, positions],
                strides: isPacked ? [all, 1] : [heads * all, all, 1],
              }),
        );
        mergeAttention({
          output: output!,
          logSumExp: whole!,
          partOutput: partOutput!,
          partLogSumExp: part!,
        });
      }),
    dtypes: ['float32'],
    tolerance: {
      // sigmoids and sums of two products, a few units in the last place; a difference of two statistics near
      // 200 is exact
      float32: { absolute: 1e-6, relative: 1e-6 },
      reason: 'two rounded weights of rounded exponentials',
    },
  };
}

const benchmarks = benchmarkSizes.map(({ preset, sequence, batch, hidden }): OpCase => {
  const variant = { name: preset, positions: sequence, batch, heads: 4, headSize: hidden / 4 };
  return { ...makeCase(variant), benchmark: {} };
});

export const cases: readonly OpCase[] = [...variants.map(makeCase), ...benchmarks];

import { add, cast, type DType, scale, splitProjection, tidy } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase, Tensors } from './op-case.js';

const dtypes: readonly DType[] = ['float32', 'bfloat16', 'float16'];
const exact = { absolute: 0, relative: 0 };

const casts: OpCase[] = dtypes.flatMap((from) =>
  dtypes.map((to) => ({
    name: `cast ${from} to ${to}`,
    operation: 'cast',
    tensors: {
      output: { shape: [5, 21], dtype: to, output: true },
      input: { shape: [5, 21], dtype: from, scale: 10 },
    },
    run: ({ output, input }) => cast({ output: output!, input: input! }),
    dtypes: ['float32'],
    tolerance: { float32: exact, reason: 'rounding to nearest even has one right answer' },
  })),
);

/** Casts of the values in a packed projection, from and to a contiguous tensor and another projection. */
const stridedCasts: OpCase[] = [5, 32].map((size) => ({
  name: `cast of heads of ${size}`,
  operation: 'cast',
  tensors: {
    whole: { shape: [3, 2, 2, size], output: true },
    copied: { shape: [3, 2, 2, 4, size], output: true, accumulated: true },
    qkv: { shape: [3, 2, 2, 4, size], dtype: 'float32' },
  },
  run: ({ whole, copied, qkv }) =>
    tidy(() => {
      cast({ output: whole!, input: splitProjection(qkv!).value });
      cast({ output: splitProjection(copied!).value, input: splitProjection(qkv!).value });
      cast({ output: splitProjection(copied!).key, input: whole! });
    }),
  dtypes,
  tolerance: {
    float32: exact,
    bfloat16: exact,
    float16: exact,
    reason: 'rounding to nearest even has one right answer',
  },
}));

/**
 * Cases with contiguous tensors, and with a box in a wide matrix: adapters of fused projections are placed in
 * such boxes.
 */
const scales: OpCase[] = [
  ...[false, true].map(
    (accumulate): OpCase => ({
      name: `scale [5, 21]${accumulate ? ' accumulate' : ''}`,
      operation: 'scale',
      tensors: {
        output: { shape: [5, 21], output: true, accumulated: accumulate },
        input: { shape: [5, 21] },
      },
      run: ({ output, input }) => scale({ output: output!, input: input!, factor: 1.5, accumulate }),
      dtypes,
    }),
  ),
  {
    name: 'scale of a box',
    operation: 'scale',
    tensors: {
      wide: { shape: [3, 4, 5, 9], output: true, accumulated: true },
      narrow: { shape: [3, 2, 5, 3], output: true, dtype: 'float32' },
      input: { shape: [3, 2, 5, 3] },
    },
    run: ({ wide, narrow, input }) =>
      tidy(() => {
        const box = wide!.strided({ offset: 45 + 6, shape: [3, 2, 5, 3], strides: [180, 45, 9, 1] });
        scale({ output: box, input: input!, factor: -0.5, accumulate: true });
        scale({ output: narrow!, input: box, factor: 2 });
      }),
    dtypes,
  },
];

const sums: OpCase[] = [
  {
    name: 'add [5, 21]',
    operation: 'add',
    tensors: {
      output: { shape: [5, 21], output: true },
      left: { shape: [5, 21] },
      right: { shape: [5, 21] },
    },
    run: ({ output, left, right }) => add({ output: output!, left: left!, right: right! }),
    dtypes,
  },
];

const benchmarks: OpCase[] = benchmarkSizes.flatMap(
  ({ preset, parameters, sequence, batch, hidden }): OpCase[] => [
    ...(['bfloat16', 'float16'] as const).map((to) => ({
      name: `cast float32 to ${to} ${preset} [${parameters}]`,
      operation: 'cast',
      tensors: {
        output: { shape: [parameters], dtype: to, output: true },
        input: { shape: [parameters], dtype: 'float32' as const },
      },
      run: ({ output, input }: Tensors) => cast({ output: output!, input: input! }),
      dtypes: ['float32' as const],
      benchmark: {},
    })),
    {
      name: `add ${preset} [${sequence * batch}, ${hidden}]`,
      operation: 'add',
      tensors: {
        output: { shape: [sequence * batch, hidden], output: true },
        left: { shape: [sequence * batch, hidden] },
        right: { shape: [sequence * batch, hidden] },
      },
      run: ({ output, left, right }) => add({ output: output!, left: left!, right: right! }),
      benchmark: {},
    },
  ],
);

export const cases: readonly OpCase[] = [...casts, ...stridedCasts, ...scales, ...sums, ...benchmarks];

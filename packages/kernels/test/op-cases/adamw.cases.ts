import { adamw, adamwScalars } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase } from './op-case.js';

const float32 = 'float32' as const;
// several segments in one chunk of the kernel, one that crosses a chunk's end, and sizes that are no multiple
// of a vector
const cuts = [
  { size: 37, segments: [10, 1, 11, 0, 37, 1] },
  { size: 20000, segments: [5, 0, 16400, 1, 20000, 0] },
];

const makeCases = ({ size, segments }: (typeof cuts)[number], updates = true): OpCase[] =>
  [true, false].map((withModelParameter) => ({
    name: `adamw ${size}${withModelParameter ? ' with a rounded copy' : ''}${updates ? '' : ' skipped'}`,
    operation: 'adamw',
    tensors: {
      parameter: { shape: [size], dtype: float32, output: true, accumulated: true },
      firstMoment: { shape: [size], dtype: float32, output: true, accumulated: true, scale: 0.1 },
      secondMoment: { shape: [size], dtype: float32, output: true, accumulated: true, values: 'uniform' },
      gradient: { shape: [size], dtype: float32, output: true, accumulated: true },
      scalars: { shape: [5], dtype: float32, values: [0.01, 0.3, 0.2, 0.5, updates ? 1 : 0] },
      segments: { shape: [segments.length / 2, 2], dtype: 'int64', values: segments },
      ...(withModelParameter ? { modelParameter: { shape: [size], output: true, accumulated: true } } : {}),
    },
    run: (tensors) =>
      adamw({
        parameter: tensors.parameter!,
        firstMoment: tensors.firstMoment!,
        secondMoment: tensors.secondMoment!,
        modelParameter: tensors.modelParameter,
        gradient: tensors.gradient!,
        scalars: tensors.scalars!,
        segments: tensors.segments!,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weightDecay: 0.1,
        clearGradient: withModelParameter,
      }),
    dtypes: withModelParameter ? ['bfloat16', 'float16'] : [float32],
    tolerance: {
      float32: { absolute: 1e-6, relative: 5e-6 },
      bfloat16: { absolute: 1e-6, relative: 2 ** -7 },
      float16: { absolute: 1e-6, relative: 2 ** -10 },
      reason: '1 - beta2 is rounded to float32 (1e-6 relative), and moments near zero make m / sqrt(v) steep',
    },
  }));

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, parameters }) =>
  makeCases({ size: parameters, segments: [parameters / 2, 1, parameters, 0] }).map((one) => ({
    ...one,
    name: `${one.name} ${preset}`,
    benchmark: {},
  })),
);

// [sum of squares, loss scale, largest norm]: clipped, just below the limit, no limit, and overflowed
const norms = [
  [400, 1, 1],
  [0.99, 1, 1],
  [400, 1024, 0.001],
  [400, 2, 0],
  [Number.POSITIVE_INFINITY, 1, 1],
] as const;

const scalars: OpCase[] = norms.map(([squares, lossScale, clipGrad]) => ({
  name: `adamw_scalars of ${squares}, scale ${lossScale}, limit ${clipGrad}`,
  operation: 'adamw_scalars',
  tensors: {
    scalars: { shape: [5], dtype: float32, output: true },
    gradientNorm: { shape: [1], dtype: 'float64', output: true },
    squares: { shape: [1], dtype: 'float64', values: [squares] },
  },
  run: (tensors) =>
    adamwScalars({
      scalars: tensors.scalars!,
      gradientNorm: tensors.gradientNorm!,
      squares: tensors.squares!,
      learningRate: 3e-4,
      correction1: 0.1,
      correction2: 0.05,
      lossScale,
      clipGrad,
    }),
  dtypes: [float32],
  tolerance: {
    float32: { absolute: 0, relative: 0 },
    reason: 'a few operations that every device rounds alike: layouts and devices must agree to the bit',
  },
}));

export const cases: readonly OpCase[] = [
  ...cuts.flatMap((cut) => [...makeCases(cut), ...makeCases(cut, false)]),
  ...scalars,
  ...benchmarks,
];

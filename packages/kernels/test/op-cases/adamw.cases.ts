import { adamw } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase } from './op-case.js';

const float32 = 'float32' as const;
// several segments in one chunk of the kernel, one that crosses a chunk's end, and sizes that are no multiple of a vector
const cuts = [
  { size: 37, segments: [10, 1, 11, 0, 37, 1] },
  { size: 20000, segments: [5, 0, 16400, 1, 20000, 0] },
];

const casesOf = ({ size, segments }: (typeof cuts)[number]): OpCase[] =>
  [true, false].map((withModelParameter) => ({
    name: `adamw ${size}${withModelParameter ? ' with a rounded copy' : ''}`,
    operation: 'adamw',
    tensors: {
      parameter: { shape: [size], dtype: float32, output: true, accumulated: true },
      firstMoment: { shape: [size], dtype: float32, output: true, accumulated: true, scale: 0.1 },
      secondMoment: { shape: [size], dtype: float32, output: true, accumulated: true, values: 'uniform' },
      gradient: { shape: [size], dtype: float32, output: true, accumulated: true },
      scalars: { shape: [4], dtype: float32, values: [0.01, 0.3, 0.2, 0.5] },
      segments: { shape: [segments.length / 2, 2], dtype: 'int64', values: segments },
      ...(withModelParameter ? { modelParameter: { shape: [size], output: true } } : {}),
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
  casesOf({ size: parameters, segments: [parameters / 2, 1, parameters, 0] }).map((one) => ({
    ...one,
    name: `${one.name} ${preset}`,
    benchmark: {},
  })),
);

export const cases: readonly OpCase[] = [...cuts.flatMap(casesOf), ...benchmarks];

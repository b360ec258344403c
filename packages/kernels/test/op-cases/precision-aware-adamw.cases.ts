import { type DType, joinRemainder, precisionAwareAdamw, splitRemainder } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase, TensorSpec } from './op-case.js';

const float32 = 'float32' as const;

interface States {
  readonly first: DType;
  readonly second: DType;
  readonly gradient?: DType;
  /** The dtype of a rounded copy of float32 values, or `remainder` for bfloat16 values with remainders. */
  readonly model?: 'bfloat16' | 'float16' | 'remainder';
}

// several segments in one chunk of the kernel, one that crosses a chunk's end, padding behind the last one,
// and sizes that are no multiple of a vector or a block
const cuts = [
  { size: 37, segments: [10, 1, 11, 0, 37, 1] },
  { size: 20000, segments: [5, 0, 700, 1, 16400, 1, 20000, 0] },
];

const states: readonly States[] = [
  { first: 'bfloat16', second: 'bfloat16' },
  { first: 'float16', second: 'float32', model: 'float16' },
  { first: 'bfloat16', second: 'float16', model: 'bfloat16', gradient: 'bfloat16' },
  { first: 'float16', second: 'float16', model: 'remainder' },
  { first: 'float32', second: 'float32', model: 'remainder', gradient: 'bfloat16' },
];

const moment = (dtype: DType, values: TensorSpec['values']): TensorSpec => ({
  shape: [],
  dtype,
  output: true,
  accumulated: true,
  values: values ?? 'normal',
  // in float16 up to half of the largest value, as the scales leave them
  scale: dtype === 'float16' ? 8000 : 0.1,
});

const makeCase = (
  { size, segments }: (typeof cuts)[number],
  { first, second, gradient = float32, model }: States,
  updates = true,
): OpCase => {
  const shape = [size];
  const numSegments = segments.length / 2;
  const scales: TensorSpec = {
    shape: [numSegments],
    dtype: float32,
    output: true,
    accumulated: true,
    values: Array.from({ length: numSegments }, (_, index) => 2 ** (index - 16)),
  };
  const word = [first, second, gradient, model ?? 'no copy'].join(', ');
  return {
    name: `precision_aware_adamw ${size}: ${word}${updates ? '' : ' skipped'}`,
    operation: 'precision_aware_adamw',
    isOnlyForHost: true,
    tensors: {
      parameter: {
        shape,
        dtype: model === 'remainder' ? 'bfloat16' : float32,
        output: true,
        accumulated: true,
      },
      ...(model === 'remainder'
        ? {
            remainder: { shape: [2 * size], dtype: 'uint8', values: (index) => (index * 97) % 256 },
            // the updated values: a byte of a remainder says nothing without the others
            joined: { shape, dtype: float32, output: true },
          }
        : {}),
      firstMoment: { ...moment(first, 'normal'), shape },
      ...(first === 'float16' ? { firstScales: scales } : {}),
      secondMoment: {
        ...moment(second, second === 'float16' ? (index) => (index * 37) % 8000 : 'uniform'),
        shape,
      },
      ...(second === 'float16' ? { secondScales: scales } : {}),
      gradient: { shape, dtype: gradient, output: true, accumulated: true },
      scalars: { shape: [5], dtype: float32, values: [0.01, 0.3, 0.2, 0.5, updates ? 1 : 0] },
      segments: { shape: [numSegments, 2], dtype: 'int64', values: segments },
      ...(model === 'bfloat16' || model === 'float16'
        ? { modelParameter: { shape, dtype: model, output: true, accumulated: true } }
        : {}),
    },
    run: (tensors) => {
      precisionAwareAdamw({
        parameter: tensors.parameter!,
        remainder: tensors.remainder,
        modelParameter: tensors.modelParameter,
        firstMoment: tensors.firstMoment!,
        firstScales: tensors.firstScales,
        secondMoment: tensors.secondMoment!,
        secondScales: tensors.secondScales,
        gradient: tensors.gradient!,
        scalars: tensors.scalars!,
        segments: tensors.segments!,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weightDecay: 0.1,
        clearGradient: gradient === float32,
      });
      const { joined: output, parameter: rounded, remainder } = tensors;
      if (output !== undefined) joinRemainder({ output, rounded: rounded!, remainder: remainder! });
    },
    dtypes: [float32],
    tolerance: {
      float32: { absolute: 1e-6, relative: 2 ** -7 },
      reason: 'the float32 update may round to the neighbour of the reference in bfloat16',
    },
  };
};

const benchmarks: OpCase[] = benchmarkSizes.map(({ preset, parameters }) => ({
  ...makeCase({ size: parameters, segments: [parameters / 2, 1, parameters, 0] }, states[0]!),
  name: `precision_aware_adamw ${preset}`,
  benchmark: {},
}));

const remainders: OpCase[] = [1, 37, 20000].flatMap((size): OpCase[] => [
  {
    name: `split_remainder ${size}`,
    operation: 'split_remainder',
    isOnlyForHost: true,
    tensors: {
      rounded: { shape: [size], dtype: 'bfloat16', output: true },
      remainder: { shape: [2 * size], dtype: 'uint8', output: true },
      input: { shape: [size], dtype: float32 },
    },
    run: ({ rounded, remainder, input }) =>
      splitRemainder({ rounded: rounded!, remainder: remainder!, input: input! }),
    dtypes: [float32],
    tolerance: { float32: { absolute: 0, relative: 0 }, reason: 'bits are moved' },
  },
  {
    name: `join_remainder ${size}`,
    operation: 'join_remainder',
    isOnlyForHost: true,
    tensors: {
      output: { shape: [size], dtype: float32, output: true },
      rounded: { shape: [size], dtype: 'bfloat16' },
      remainder: { shape: [2 * size], dtype: 'uint8', values: (index) => (index * 89) % 256 },
    },
    run: ({ output, rounded, remainder }) =>
      joinRemainder({ output: output!, rounded: rounded!, remainder: remainder! }),
    dtypes: [float32],
    tolerance: { float32: { absolute: 0, relative: 0 }, reason: 'bits are moved' },
  },
]);

export const cases: readonly OpCase[] = [
  ...cuts.flatMap((cut) => states.flatMap((each) => [makeCase(cut, each), makeCase(cut, each, false)])),
  ...remainders,
  ...benchmarks,
];

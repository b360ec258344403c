import { muonMomentum, muonNormalize, muonPolynomial, muonUpdate } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase } from './op-case.js';

const float32 = 'float32' as const;
// one element, a number that is no multiple of a vector, and enough elements for several threads
const sizes = [1, 37, 20011];
const declareScalars = (updates: boolean) =>
  ({ shape: [5], dtype: float32, values: [0.01, 1, 1, 0.5, updates ? 1 : 0] }) as const;

const momentum = (size: number, { nesterov = true, updates = true, name = `${size}` } = {}): OpCase => ({
  name: `muon_momentum ${name}${nesterov ? ' nesterov' : ''}${updates ? '' : ' skipped'}`,
  operation: 'muon_momentum',
  tensors: {
    momentum: { shape: [size], dtype: float32, output: true, accumulated: true },
    gradient: { shape: [size], dtype: float32, output: true, accumulated: true },
    scalars: declareScalars(updates),
  },
  run: ({ momentum, gradient, scalars }) =>
    muonMomentum({
      momentum: momentum!,
      gradient: gradient!,
      scalars: scalars!,
      decay: 0.95,
      nesterov,
    }),
  dtypes: [float32],
  tolerance: {
    float32: { absolute: 1e-6, relative: 1e-6 },
    reason: 'a few float32 roundings of values of size 1',
  },
});

const normalize = (shape: readonly number[], { squares = 4, name = `[${shape}]` } = {}): OpCase => ({
  name: `muon_normalize ${name}, ${squares} squares`,
  operation: 'muon_normalize',
  tensors: {
    output: { shape, output: true },
    input: { shape, dtype: float32 },
    squares: { shape: [1], dtype: 'float64', values: [squares] },
  },
  run: ({ output, input, squares }) =>
    muonNormalize({ output: output!, input: input!, squares: squares!, epsilon: 1e-7 }),
  dtypes: [float32, 'bfloat16'],
});

const polynomial = (size: number, name = `[${size},${size}]`): OpCase => ({
  name: `muon_polynomial ${name}`,
  operation: 'muon_polynomial',
  tensors: {
    output: { shape: [size, size], output: true },
    gram: { shape: [size, size] },
    square: { shape: [size, size], dtype: float32 },
  },
  run: ({ output, gram, square }) =>
    muonPolynomial({
      output: output!,
      gram: gram!,
      square: square!,
      constant: 3.4445,
      linear: -4.775,
      quadratic: 2.0315,
    }),
  dtypes: [float32, 'bfloat16'],
  tolerance: {
    float32: { absolute: 4e-6, relative: 1e-6 },
    bfloat16: { absolute: 4e-6, relative: 2 ** -7 },
    reason: 'terms of size 10 cancel, and one unit in the last place of the result',
  },
});

const update = (
  size: number,
  { withModelParameter = false, updates = true, name = `${size}` } = {},
): OpCase => ({
  name: `muon_update ${name}${withModelParameter ? ' with a rounded copy' : ''}${updates ? '' : ' skipped'}`,
  operation: 'muon_update',
  tensors: {
    parameter: { shape: [size], dtype: float32, output: true, accumulated: true },
    direction: { shape: [size], dtype: float32, output: true, accumulated: true },
    scalars: declareScalars(updates),
    ...(withModelParameter ? { modelParameter: { shape: [size], output: true, accumulated: true } } : {}),
  },
  run: ({ parameter, modelParameter, direction, scalars }) =>
    muonUpdate({
      parameter: parameter!,
      modelParameter,
      direction: direction!,
      scalars: scalars!,
      weightDecay: 0.1,
      clearDirection: withModelParameter,
    }),
  dtypes: withModelParameter ? ['bfloat16', 'float16'] : [float32],
  tolerance: {
    float32: { absolute: 1e-6, relative: 1e-6 },
    bfloat16: { absolute: 1e-6, relative: 2 ** -7 },
    float16: { absolute: 1e-6, relative: 2 ** -10 },
    reason: 'a few float32 roundings of values of size 1, then one of the copy',
  },
});

const benchmarks = benchmarkSizes.flatMap(({ preset, parameters, feedForward }): OpCase[] =>
  [
    momentum(parameters, { name: preset }),
    normalize([parameters], { name: preset }),
    polynomial(feedForward / 4, preset),
    update(parameters, { withModelParameter: true, name: preset }),
  ].map((one) => ({ ...one, benchmark: {} })),
);

export const cases: readonly OpCase[] = [
  ...sizes.flatMap((size) => [
    momentum(size),
    momentum(size, { nesterov: false }),
    momentum(size, { updates: false }),
    update(size),
    update(size, { withModelParameter: true }),
    update(size, { withModelParameter: true, updates: false }),
  ]),
  ...[[1], [3, 17], [130, 129]].flatMap((shape) => [normalize(shape), normalize(shape, { squares: 0 })]),
  ...[1, 17, 130].map((size) => polynomial(size)),
  ...benchmarks,
];

import { rmsNormBackward, rmsNormForward, splitProjection, tidy } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, Tensors } from './op-case.js';

const epsilon = 1e-5;
const shapes = [
  [3, 17],
  [4, 2, 64],
  [33, 384],
];

const rowsOf = (shape: readonly number[]): number =>
  shape.slice(0, -1).reduce((product, dim) => product * dim, 1);

const tolerance = {
  float32: { absolute: 1e-5, relative: 1e-5 },
  // rstd enters the gradient of a bfloat16 tensor through rounded inputs; the sums themselves are float32
  bfloat16: { absolute: 2e-2, relative: 2 ** -7 },
  reason: 'sums over a row of products cancel; weight gradients sum over all rows in another order',
};

const toleranceOfManyRows = {
  ...tolerance,
  float32: { absolute: 1e-4, relative: 1e-5 },
  reason: 'weight gradients are sums of a thousand terms of either sign, up to 60 on the way',
};

const forwardCase = (shape: readonly number[]): OpCase => ({
  name: `rms_norm_forward [${shape}]`,
  operation: 'rms_norm_forward',
  tensors: {
    output: { shape, output: true },
    rstd: { shape: [rowsOf(shape)], dtype: 'float32', output: true },
    input: { shape, scale: 3 },
    weight: { shape: [shape.at(-1)!] },
  },
  run: ({ output, rstd, input, weight }) =>
    rmsNormForward({ output: output!, rstd: rstd!, input: input!, weight: weight!, epsilon }),
  tolerance,
});

const statistics = (rows: number) =>
  ({ shape: [rows], dtype: 'float32', values: (index: number) => 1 + 0.01 * (index % 50) }) as const;

function runBackward(tensors: Tensors): void {
  rmsNormBackward({
    inputGradient: tensors.inputGradient,
    weightGradient: tensors.weightGradient,
    outputGradient: tensors.outputGradient!,
    input: tensors.input!,
    rstd: tensors.rstd!,
    weight: tensors.weight!,
    addend: tensors.addend,
  });
}

const parts = ['all', 'input', 'weight'] as const;

const backwardCases = (shape: readonly number[]): OpCase[] =>
  parts.map((part) => ({
    name: `rms_norm_backward ${part} [${shape}]`,
    operation: 'rms_norm_backward',
    tensors: {
      ...(part === 'weight' ? {} : { inputGradient: { shape, output: true }, addend: { shape } }),
      ...(part === 'input'
        ? {}
        : { weightGradient: { shape: [shape.at(-1)!], dtype: 'float32', output: true, accumulated: true } }),
      outputGradient: { shape },
      input: { shape },
      rstd: statistics(rowsOf(shape)),
      weight: { shape: [shape.at(-1)!] },
    },
    run: runBackward,
    tolerance,
  }));

/**
 * Rows of RMS `size`, whose squares are numbers of float32 and whose cubes are none; gradients are about 1.
 */
const farCase = (size: number): OpCase => ({
  name: `rms_norm_backward of rows of RMS ${size}`,
  operation: 'rms_norm_backward',
  tensors: {
    inputGradient: { shape: [3, 17], output: true },
    outputGradient: { shape: [3, 17], scale: size },
    input: { shape: [3, 17], scale: size },
    rstd: { shape: [3], dtype: 'float32', values: () => 1 / size },
    weight: { shape: [17] },
  },
  run: runBackward,
  // float16 ends at 65504
  dtypes: ['float32', 'bfloat16'],
  tolerance,
});

/** Of the queries in a packed projection [S, B, G, R + 2, D], whose other parts stay as they are. */
function headCases([sequence, batch, groups, members, size]: readonly [
  number,
  number,
  number,
  number,
  number,
]) {
  const packed = [sequence, batch, groups, members + 2, size];
  const rows = sequence * batch * groups * members;
  const gradient = { dtype: 'float32', output: true, accumulated: true } as const;
  return [
    {
      name: `rms_norm_forward of heads [${packed}]`,
      operation: 'rms_norm_forward',
      tensors: {
        normalized: { shape: packed, output: true, accumulated: true },
        rstd: { shape: [rows], dtype: 'float32', output: true },
        qkv: { shape: packed },
        weight: { shape: [size] },
      },
      run: ({ normalized, rstd, qkv, weight }) =>
        tidy(() => {
          const [output, input] = [splitProjection(normalized!).query, splitProjection(qkv!).query];
          rmsNormForward({ output, rstd: rstd!, input, weight: weight!, epsilon });
        }),
      tolerance,
    },
    {
      name: `rms_norm_backward of heads [${packed}]`,
      operation: 'rms_norm_backward',
      tensors: {
        qkvGradient: { shape: packed, output: true, accumulated: true },
        weightGradient: { shape: [size], ...gradient },
        normalizedGradient: { shape: packed },
        qkv: { shape: packed },
        addend: { shape: packed },
        rstd: statistics(rows),
        weight: { shape: [size] },
      },
      run: ({ qkvGradient, weightGradient, normalizedGradient, qkv, addend, rstd, weight }) =>
        tidy(() =>
          rmsNormBackward({
            inputGradient: splitProjection(qkvGradient!).query,
            weightGradient: weightGradient!,
            outputGradient: splitProjection(normalizedGradient!).query,
            input: splitProjection(qkv!).query,
            rstd: rstd!,
            weight: weight!,
            addend: splitProjection(addend!).query,
          }),
        ),
      tolerance,
    },
  ] satisfies OpCase[];
}

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }) => {
  const shape = [sequence, batch, hidden];
  return [
    forwardCase(shape),
    ...backwardCases(shape),
    ...headCases([sequence, batch, hidden / 64, 1, 64]),
  ].map((one) => ({
    ...one,
    name: `${one.name} ${preset}`,
    benchmark: {},
    tolerance: {
      float32: { absolute: 1e-3, relative: 1e-4 },
      bfloat16: { absolute: 5e-2, relative: 2 ** -6 },
      reason: 'weight gradients are sums of thousands of cancelling terms',
    },
  }));
});

export const cases: readonly OpCase[] = [
  ...shapes.map(forwardCase),
  ...shapes.flatMap(backwardCases),
  ...[1e16, 1e-16].map(farCase),
  ...headCases([5, 2, 3, 2, 7]),
  ...headCases([3, 2, 2, 1, 64]),
  // enough rows for several threads
  ...headCases([97, 2, 2, 3, 24]).map((one) => ({ ...one, tolerance: toleranceOfManyRows })),
  ...benchmarks,
];

const small = [3, 5];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'rms_norm',
    tensors: { input: { shape: small }, weight: { shape: [5] }, rstd: { shape: [3] } },
    differentiable: ['input', 'weight'],
    outputShape: small,
    forward: ({ input, weight, rstd }, output) =>
      rmsNormForward({ output, rstd: rstd!, input: input!, weight: weight!, epsilon }),
    backward: ({ input, weight, rstd }, outputGradient, gradients) =>
      rmsNormBackward({
        inputGradient: gradients.input,
        weightGradient: gradients.weight,
        outputGradient,
        input: input!,
        rstd: rstd!,
        weight: weight!,
      }),
  },
];

import { rmsNormBackward, rmsNormForward, splitProjection, tidy } from '../../src/index.js';
import {
  countRows,
  declareGradients,
  epsilon,
  gradientParts,
  normBenchmarks,
  normShapes,
  normTolerance,
  rstdOfRows,
} from './norm-cases.js';
import type { GradientCase, OpCase, Tensors } from './op-case.js';

const tolerance = normTolerance('products');

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
    rstd: { shape: [countRows(shape)], dtype: 'float32', output: true },
    input: { shape, scale: 3 },
    weight: { shape: [shape.at(-1)!] },
  },
  run: ({ output, rstd, input, weight }) =>
    rmsNormForward({ output: output!, rstd: rstd!, input: input!, weight: weight!, epsilon }),
  tolerance,
});

/** Returns a case of rows with half of their features in other tensors. */
const partCase = (shape: readonly number[]): OpCase => ({
  name: `rms_norm_forward of a part [${shape}]`,
  operation: 'rms_norm_forward',
  tensors: {
    output: { shape, output: true },
    rstd: { shape: [countRows(shape)], dtype: 'float32', output: true },
    input: { shape, scale: 3 },
    weight: { shape: [shape.at(-1)!] },
    squares: { shape: [countRows(shape)], dtype: 'float32', values: (row) => 5 + row },
  },
  run: ({ output, rstd, input, weight, squares }) =>
    rmsNormForward({
      output: output!,
      rstd: rstd!,
      input: input!,
      weight: weight!,
      epsilon,
      squares,
      width: 2 * shape.at(-1)!,
    }),
  tolerance,
});

function runBackward(tensors: Tensors): void {
  rmsNormBackward({
    inputGradient: tensors.inputGradient,
    weightGradient: tensors.weightGradient,
    outputGradient: tensors.outputGradient!,
    input: tensors.input!,
    rstd: tensors.rstd!,
    weight: tensors.weight!,
    addend: tensors.addend,
    products: tensors.products,
    width: tensors.products && 2 * tensors.input!.dim(-1),
  });
}

const partBackwardCases = (shape: readonly number[]): OpCase[] =>
  backwardCases(shape).map(({ name, tensors, ...others }) => ({
    ...others,
    name: `${name} of a part`,
    tensors: {
      ...tensors,
      products: { shape: [countRows(shape)], dtype: 'float32', values: (row: number) => row - 1.5 },
    },
  }));

const backwardCases = (shape: readonly number[]): OpCase[] =>
  gradientParts.map((part) => ({
    name: `rms_norm_backward ${part} [${shape}]`,
    operation: 'rms_norm_backward',
    tensors: {
      ...declareGradients(part, { shape, weights: ['weightGradient'] }),
      outputGradient: { shape },
      input: { shape },
      rstd: rstdOfRows(countRows(shape)),
      weight: { shape: [shape.at(-1)!] },
    },
    run: runBackward,
    tolerance,
  }));

/**
 * Returns a case of rows of RMS `size`, whose squares are in float32's range and whose cubes are not;
 * gradients are about 1.
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

/**
 * Returns cases of the queries in a packed projection [S, B, G, R + 2, D], whose other parts stay as they
 * are.
 */
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
        rstd: rstdOfRows(rows),
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

const benchmarks = normBenchmarks(({ sequence, batch, hidden }) => {
  const shape = [sequence, batch, hidden];
  return [forwardCase(shape), ...backwardCases(shape), ...headCases([sequence, batch, hidden / 64, 1, 64])];
});

export const cases: readonly OpCase[] = [
  ...normShapes.map(forwardCase),
  ...normShapes.flatMap(backwardCases),
  ...normShapes.map(partCase),
  ...normShapes.flatMap(partBackwardCases),
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

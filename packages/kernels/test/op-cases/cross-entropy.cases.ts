import {
  countElements,
  crossEntropyBackward,
  crossEntropyForwardBackward,
  crossEntropyRescale,
  crossEntropyStatistics,
  Tensor,
} from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec, Tensors } from './op-case.js';

const rows = 6;
interface Width extends Pick<OpCase, 'isOnlyForHost'> {
  readonly width: number;
  readonly numColumns: number;
  readonly softCap?: number | undefined;
}

const capped = { isOnlyForHost: true } as const;
const widths: readonly Width[] = [
  { width: 13, numColumns: 13 },
  { width: 128, numColumns: 101 },
  { width: 300, numColumns: 300 },
  { width: 64, numColumns: 0 }, // the shard of a vocabulary that is all padding
  { width: 128, numColumns: 101, softCap: 3, ...capped }, // among the logits
  { width: 300, numColumns: 300, softCap: 30, ...capped },
  { width: 64, numColumns: 0, softCap: 3, ...capped },
];
const describeCase = ({ width, numColumns, softCap }: Width): string =>
  `[${rows}, ${width}] ${numColumns} real${softCap === undefined ? '' : `, cap ${softCap}`}`;
const float32 = 'float32' as const;
// labels among, before and beyond the columns of this rank
const labels: TensorSpec = { shape: [rows], dtype: 'int32', values: [3, 4, 14, 0, 9, 2000] };
const vocabularySize = 2001;
const weights: TensorSpec = { shape: [rows], dtype: float32, values: [0.25, 0.5, 0, 1, 2, 0.125] };
const perRow = (output: boolean): TensorSpec => ({ shape: [rows], dtype: float32, output });

const statistics: OpCase[] = widths.map(({ width, numColumns, softCap, ...rest }) => ({
  ...rest,
  name: `cross_entropy_statistics ${describeCase({ width, numColumns, softCap })}`,
  operation: 'cross_entropy_statistics',
  tensors: {
    rowMaximum: perRow(true),
    rowSum: perRow(true),
    labelLogit: perRow(true),
    logits: { shape: [rows, width], scale: 4 },
    labels,
  },
  run: ({ rowMaximum, rowSum, labelLogit, logits, labels }) =>
    crossEntropyStatistics({
      rowMaximum: rowMaximum!,
      rowSum: rowSum!,
      labelLogit: labelLogit!,
      logits: logits!,
      labels: labels!,
      firstColumn: 2,
      numColumns,
      softCap,
    }),
}));

const backward: OpCase[] = widths.map(({ width, numColumns, softCap, ...rest }) => ({
  ...rest,
  name: `cross_entropy_backward ${describeCase({ width, numColumns, softCap })}`,
  operation: 'cross_entropy_backward',
  tensors: {
    logitGradient: { shape: [rows, width], output: true },
    loss: perRow(true),
    logits: { shape: [rows, width] },
    labels,
    rowMaximum: { shape: [rows], dtype: float32, values: (index) => 2 + index / 7 },
    rowSum: { shape: [rows], dtype: float32, values: (index) => 9 + index },
    labelLogit: { shape: [rows], dtype: float32 },
    weights,
  },
  run: (tensors) =>
    crossEntropyBackward({
      logitGradient: tensors.logitGradient,
      loss: tensors.loss!,
      logits: tensors.logits!,
      labels: tensors.labels!,
      rowMaximum: tensors.rowMaximum!,
      rowSum: tensors.rowSum!,
      labelLogit: tensors.labelLogit!,
      weights: tensors.weights!,
      firstColumn: 2,
      numColumns,
      softCap,
      vocabularySize,
    }),
}));

const forwardBackward: OpCase[] = widths
  .filter(({ numColumns }) => numColumns > 0)
  .flatMap(({ width, numColumns, softCap, ...rest }) =>
    [true, false].map((withGradient) => ({
      ...rest,
      name: `cross_entropy_forward_backward ${describeCase({ width, numColumns, softCap })}${withGradient ? '' : ', loss alone'}`,
      operation: 'cross_entropy_forward_backward',
      tensors: {
        ...(withGradient ? { logitGradient: { shape: [rows, width], output: true } } : {}),
        loss: perRow(true),
        rowMaximum: perRow(true),
        rowSum: perRow(true),
        labelLogit: perRow(true),
        logits: { shape: [rows, width], scale: 4 },
        labels,
        weights,
      },
      run: (tensors: Tensors) =>
        crossEntropyForwardBackward({
          logitGradient: tensors.logitGradient,
          loss: tensors.loss!,
          rowMaximum: tensors.rowMaximum!,
          rowSum: tensors.rowSum!,
          labelLogit: tensors.labelLogit!,
          logits: tensors.logits!,
          labels: tensors.labels!,
          weights: tensors.weights!,
          firstColumn: 2,
          numColumns,
          softCap,
          vocabularySize,
        }),
    })),
  );

// an ignored label, a label out of range in a row of weight 0, and labels of other ranks
const ignored: OpCase[] = [true, false].map((withGradient) => ({
  name: `cross_entropy_forward_backward with an ignored label${withGradient ? '' : ', loss alone'}`,
  operation: 'cross_entropy_forward_backward',
  tensors: {
    ...(withGradient ? { logitGradient: { shape: [rows, 37], output: true } } : {}),
    loss: perRow(true),
    rowMaximum: perRow(true),
    rowSum: perRow(true),
    labelLogit: perRow(true),
    logits: { shape: [rows, 37], scale: 4 },
    labels: { shape: [rows], dtype: 'int32', values: [3, -100, 4000, -100, 38, 17] },
    weights,
  },
  run: (tensors: Tensors) =>
    crossEntropyForwardBackward({
      logitGradient: tensors.logitGradient,
      loss: tensors.loss!,
      rowMaximum: tensors.rowMaximum!,
      rowSum: tensors.rowSum!,
      labelLogit: tensors.labelLogit!,
      logits: tensors.logits!,
      labels: tensors.labels!,
      weights: tensors.weights!,
      numColumns: 37,
      vocabularySize: 39,
      ignoreIndex: -100,
    }),
}));

// added to logits as large as these, the logarithm of the sum would be rounded off; the loss needs it
const largeLogits: OpCase[] = [1e6, 1e8].map((size) => ({
  name: `cross_entropy_forward_backward of logits around ${size}`,
  operation: 'cross_entropy_forward_backward',
  tensors: {
    logitGradient: { shape: [3, 4], output: true },
    loss: { shape: [3], dtype: float32, output: true },
    rowMaximum: { shape: [3], dtype: float32, output: true },
    rowSum: { shape: [3], dtype: float32, output: true },
    labelLogit: { shape: [3], dtype: float32, output: true },
    // a row of equal logits; a row with all but one far below; a row of negative logits
    logits: { shape: [3, 4], values: (index) => (index === 4 ? 1.5 : index < 8 ? 1 : -1) * size },
    labels: { shape: [3], dtype: 'int32', values: [2, 0, 3] },
    weights: { shape: [3], dtype: float32, values: [1, 1, 1] },
  },
  run: (tensors: Tensors) =>
    crossEntropyForwardBackward({
      logitGradient: tensors.logitGradient,
      loss: tensors.loss!,
      rowMaximum: tensors.rowMaximum!,
      rowSum: tensors.rowSum!,
      labelLogit: tensors.labelLogit!,
      logits: tensors.logits!,
      labels: tensors.labels!,
      weights: tensors.weights!,
      numColumns: 4,
    }),
  dtypes: ['float32', 'bfloat16'],
}));

const rescale: OpCase = {
  name: 'cross_entropy_rescale [6]',
  operation: 'cross_entropy_rescale',
  tensors: {
    output: perRow(true),
    rowSum: { shape: [rows], dtype: float32, values: [1, 2.5, 300, 7, 0, 1] },
    // a rank's maximum: equal to the group's, far below it, and absent
    rowMaximum: { shape: [rows], dtype: float32, values: [1, -3, 0.5, -90, Number.NEGATIVE_INFINITY, 2] },
    groupMaximum: { shape: [rows], dtype: float32, values: [1, 2, 0.75, 4, 3, 2] },
  },
  run: ({ output, rowSum, rowMaximum, groupMaximum }) =>
    crossEntropyRescale({
      output: output!,
      rowSum: rowSum!,
      rowMaximum: rowMaximum!,
      groupMaximum: groupMaximum!,
    }),
  dtypes: ['float32'],
};

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, logits: [tokens, width] }): OpCase[] => {
  const perToken = (spec: Partial<TensorSpec>): TensorSpec => ({ shape: [tokens], dtype: float32, ...spec });
  const labels: TensorSpec = { shape: [tokens], dtype: 'int32', values: (index) => (index * 7919) % width };
  const logits: TensorSpec = { shape: [tokens, width] };
  const numColumns = width - 30; // the last ones pad the vocabulary
  return [
    {
      name: `cross_entropy_statistics ${preset} [${tokens}, ${width}]`,
      operation: 'cross_entropy_statistics',
      tensors: {
        rowMaximum: perToken({ output: true }),
        rowSum: perToken({ output: true }),
        labelLogit: perToken({ output: true }),
        logits,
        labels,
      },
      run: ({ rowMaximum, rowSum, labelLogit, logits, labels }) =>
        crossEntropyStatistics({
          rowMaximum: rowMaximum!,
          rowSum: rowSum!,
          labelLogit: labelLogit!,
          logits: logits!,
          labels: labels!,
          numColumns,
        }),
      benchmark: {},
    },
    {
      name: `cross_entropy_forward_backward ${preset} [${tokens}, ${width}]`,
      operation: 'cross_entropy_forward_backward',
      tensors: {
        logitGradient: { ...logits, output: true },
        loss: perToken({ output: true }),
        rowMaximum: perToken({ output: true }),
        rowSum: perToken({ output: true }),
        labelLogit: perToken({ output: true }),
        logits,
        labels,
        weights: perToken({ values: () => 1 }),
      },
      run: (tensors) =>
        crossEntropyForwardBackward({
          logitGradient: tensors.logitGradient,
          loss: tensors.loss!,
          logits: tensors.logits!,
          labels: tensors.labels!,
          weights: tensors.weights!,
          rowMaximum: tensors.rowMaximum!,
          rowSum: tensors.rowSum!,
          labelLogit: tensors.labelLogit!,
          numColumns,
        }),
      benchmark: {},
    },
    {
      name: `cross_entropy_backward ${preset} [${tokens}, ${width}]`,
      operation: 'cross_entropy_backward',
      tensors: {
        logitGradient: { ...logits, output: true },
        loss: perToken({ output: true }),
        logits,
        labels,
        rowMaximum: perToken({ values: () => 4 }),
        rowSum: perToken({ values: () => 1000 }),
        labelLogit: perToken({}),
        weights: perToken({ values: () => 1 }),
      },
      run: (tensors) =>
        crossEntropyBackward({
          logitGradient: tensors.logitGradient,
          loss: tensors.loss!,
          logits: tensors.logits!,
          labels: tensors.labels!,
          weights: tensors.weights!,
          rowMaximum: tensors.rowMaximum!,
          rowSum: tensors.rowSum!,
          labelLogit: tensors.labelLogit!,
          numColumns,
        }),
      benchmark: {},
    },
  ];
});

export const cases: readonly OpCase[] = [
  ...statistics,
  ...backward,
  ...forwardBackward,
  ...ignored,
  ...largeLogits,
  rescale,
  ...benchmarks,
];

const gradientLabels: TensorSpec = { shape: [3], dtype: 'int32', values: [1, 0, 4] };
const numColumns = 5; // of 7: the last two are padding

export const gradientCases: readonly GradientCase[] = [undefined, 0.9].map(
  (softCap): GradientCase => ({
    name: `cross_entropy${softCap === undefined ? '' : ' with a soft cap'}`,
    tensors: {
      logits: { shape: [3, 7] },
      labels: gradientLabels,
      rowMaximum: { shape: [3] },
      rowSum: { shape: [3] },
      labelLogit: { shape: [3] },
      ones: { shape: [3], values: () => 1 },
    },
    differentiable: ['logits'],
    outputShape: [3],
    forward: ({ logits, labels, rowMaximum, rowSum, labelLogit, ones }, output) => {
      const statistics = { rowMaximum: rowMaximum!, rowSum: rowSum!, labelLogit: labelLogit! };
      const inputs = { logits: logits!, labels: labels!, numColumns, softCap };
      crossEntropyStatistics({ ...statistics, ...inputs });
      crossEntropyBackward({ ...statistics, ...inputs, loss: output, weights: ones! });
    },
    backward: ({ logits, labels, rowMaximum, rowSum, labelLogit }, outputGradient, gradients) => {
      const loss = Tensor.empty({ shape: [countElements([3])], dtype: 'float64', device: 'reference' });
      crossEntropyBackward({
        logitGradient: gradients.logits,
        loss,
        logits: logits!,
        labels: labels!,
        rowMaximum: rowMaximum!,
        rowSum: rowSum!,
        labelLogit: labelLogit!,
        weights: outputGradient,
        numColumns,
        softCap,
      });
      loss.dispose();
    },
  }),
);

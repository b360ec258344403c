import {
  attentionBackward,
  attentionForward,
  attentionRowSums,
  attentionSinkBackward,
  attentionSinkForward,
  Tensor,
  tidy,
} from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

/** S positions, B micro-batch (none: packed), A heads, E value head size. */
interface Variant {
  readonly name: string;
  readonly positions: number;
  readonly batch?: number;
  readonly heads: number;
  readonly size: number;
  readonly hasSinks?: boolean;
}

const variants: readonly Variant[] = [
  { name: 'one row', positions: 1, batch: 1, heads: 1, size: 1 },
  { name: 'whole vectors', positions: 33, batch: 2, heads: 3, size: 64 },
  { name: 'odd sizes', positions: 10, batch: 3, heads: 2, size: 19 },
  { name: 'packed', positions: 41, heads: 3, size: 24 },
  { name: 'no sinks', positions: 9, batch: 2, heads: 3, size: 16, hasSinks: false },
  { name: 'no rows', positions: 0, batch: 2, heads: 2, size: 8 },
];

/** Scores far apart and close together, so large that e^x overflows, and of a query without keys. */
const statistics = [0.3, 200, -200, -1e30, 5, 88, 1e4, -3, 2];
const scores = [0.1, -180, 190, 0, 3];

const declareShapes = ({ positions, batch, heads, size }: Variant) => ({
  output: batch === undefined ? [positions, heads, size] : [positions, batch, heads, size],
  logSumExp: batch === undefined ? [heads, positions] : [batch, heads, positions],
});
const repeated = (values: readonly number[]) => (index: number) => values[index % values.length]!;

function forward(variant: Variant): OpCase {
  const { name, heads, hasSinks = true } = variant;
  const shapes = declareShapes(variant);
  const sinks: Record<string, TensorSpec> = hasSinks
    ? { sinks: { shape: [heads], values: repeated(scores) } }
    : {};
  return {
    name: `attention_sink_forward ${name} [${shapes.output}]`,
    operation: 'attention_sink_forward',
    isOnlyForHost: true,
    tensors: {
      output: { shape: shapes.output, output: true, accumulated: true },
      logSumExp: {
        shape: shapes.logSumExp,
        dtype: 'float32',
        values: repeated(statistics),
        output: true,
        accumulated: true,
      },
      ...sinks,
    },
    run: ({ output, logSumExp, sinks: given }) =>
      attentionSinkForward({ output: output!, logSumExp: logSumExp!, sinks: given }),
  };
}

function backward(variant: Variant): OpCase {
  const { name, heads } = variant;
  const { logSumExp: shape } = declareShapes(variant);
  return {
    name: `attention_sink_backward ${name} [${shape}]`,
    operation: 'attention_sink_backward',
    isOnlyForHost: true,
    tensors: {
      sinksGradient: { shape: [heads], dtype: 'float32', output: true, accumulated: true },
      rowSums: { shape, dtype: 'float32' },
      // with sinks: never below the sink of its head
      logSumExp: { shape, dtype: 'float32', values: (index) => 2 + (index % 7) },
      sinks: { shape: [heads], values: repeated([0.5, -1, 1.75]) },
    },
    run: ({ sinksGradient, rowSums, logSumExp, sinks }) =>
      attentionSinkBackward({
        sinksGradient: sinksGradient!,
        rowSums: rowSums!,
        logSumExp: logSumExp!,
        sinks: sinks!,
      }),
    tolerance: {
      float32: { absolute: 1e-5, relative: 1e-5 },
      reason: 'a sum over all rows of products with rounded exponentials',
    },
  };
}

const benchmarks = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }): OpCase[] => {
  const variant = { name: preset, positions: sequence, batch, heads: hidden / 64, size: 64 };
  return [forward(variant), backward(variant)].map((each) => ({ ...each, benchmark: {} }));
});

export const cases: readonly OpCase[] = [
  ...variants.flatMap((variant) =>
    variant.hasSinks === false ? [forward(variant)] : [forward(variant), backward(variant)],
  ),
  ...benchmarks,
];

/** Attention with sinks: its log-sum-exp, for the gradient of all of its operands. */
function attend(
  { query, key, value, sinks }: Readonly<Record<string, Tensor>>,
  output: Tensor,
  causal: boolean,
): Tensor {
  const [positions, batch, heads] = query!.shape as [number, number, number, number];
  const { dtype, device } = query!;
  const logSumExp = Tensor.empty({ shape: [batch, heads, positions], dtype, device });
  const operands = { query: query!, key: key!, value: value!, visibility: { causal } };
  attentionForward({ output, logSumExp, ...operands });
  attentionSinkForward({ output, logSumExp, sinks });
  return logSumExp;
}

const gradientCase = (name: string, causal: boolean): GradientCase => ({
  name: `attention with sinks, ${name}`,
  tensors: {
    query: { shape: [5, 2, 3, 4] },
    key: { shape: [5, 2, 3, 4] },
    value: { shape: [5, 2, 3, 4] },
    sinks: { shape: [3] },
  },
  differentiable: ['query', 'key', 'value', 'sinks'],
  outputShape: [5, 2, 3, 4],
  forward: (tensors, output) =>
    tidy(() => {
      attend(tensors, output, causal);
    }),
  backward: (tensors, outputGradient, gradients) =>
    tidy(() => {
      const { query, key, value, sinks } = tensors;
      const output = Tensor.empty(outputGradient);
      const logSumExp = attend(tensors, output, causal);
      const rowSums = attentionRowSums({ output, outputGradient });
      attentionBackward({
        queryGradient: gradients.query!,
        keyGradient: gradients.key!,
        valueGradient: gradients.value!,
        outputGradient,
        rowSums,
        logSumExp,
        query: query!,
        key: key!,
        value: value!,
        visibility: { causal },
      });
      attentionSinkBackward({ sinksGradient: gradients.sinks!, rowSums, logSumExp, sinks: sinks! });
    }),
});

export const gradientCases: readonly GradientCase[] = [
  gradientCase('causal', true),
  gradientCase('all keys', false),
];

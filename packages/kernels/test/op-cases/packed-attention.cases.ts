import {
  type PackedAttentionOptions,
  packedAttentionBackward,
  packedAttentionForward,
  Tensor,
} from '../../src/index.js';
import type { GradientCase, OpCase, TensorSpec, Tensors } from './op-case.js';
import { attentionTolerances } from './tolerances.js';

interface Variant {
  readonly name: string;
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly headSize: number;
  /** Rows at the end that belong to no sample. */
  readonly rest?: number;
  readonly dropout?: number;
  readonly scale?: number;
}

const variants: Variant[] = [
  { name: 'one row', lengths: [1], heads: 1, headSize: 8 },
  { name: 'whole tiles', lengths: [64, 128], heads: 2, headSize: 64 },
  { name: 'odd lengths', lengths: [3, 130, 65, 1], heads: 2, headSize: 19, scale: 0.3 },
  { name: 'rows of nobody', lengths: [70, 5], heads: 3, headSize: 16, rest: 13 },
  { name: 'an empty sample', lengths: [0, 20, 0], heads: 1, headSize: 24, rest: 2 },
  { name: 'few heads, several tiles', lengths: [200], heads: 1, headSize: 40 },
  { name: 'dropout', lengths: [40, 99, 7], heads: 2, headSize: 16, rest: 6, dropout: 0.3 },
];

const numRows = ({ lengths, rest = 0 }: Variant): number =>
  lengths.reduce((sum, length) => sum + length, rest);

function coordinates({ lengths, dropout }: Variant): Record<string, TensorSpec> {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1)! + length);
  return {
    starts: { shape: [starts.length], dtype: 'int32', values: starts },
    ...(dropout && {
      samples: { shape: [lengths.length], dtype: 'int64', values: (index: number) => 70_000 + index },
    }),
  };
}

function optionsOf(variant: Variant, { starts, samples }: Tensors): PackedAttentionOptions {
  const { lengths, scale, dropout: probability } = variant;
  return {
    packed: {
      starts: starts!,
      longest: Math.max(...lengths),
      numScores: lengths.reduce((sum, length) => sum + length ** 2, 0),
    },
    ...(scale !== undefined && { scale }),
    ...(probability !== undefined && {
      dropout: { probability, keyLow: 0x9e3779b9, keyHigh: 12345, samples: samples!, headOffset: 5 },
    }),
  };
}

function shapesOf(variant: Variant) {
  const { heads, headSize } = variant;
  const rows = numRows(variant);
  return {
    output: [rows, heads, headSize],
    logSumExp: [heads, rows],
    qkv: [rows, heads, 3, headSize],
  };
}

const dtypes = ['float32', 'bfloat16', 'float16'] as const;

function forwardCase(variant: Variant): OpCase {
  const shapes = shapesOf(variant);
  return {
    name: `packed_attention_forward ${variant.name} [${variant.lengths}]`,
    operation: 'packed_attention_forward',
    tensors: {
      output: { shape: shapes.output, output: true },
      logSumExp: { shape: shapes.logSumExp, dtype: 'float32', output: true },
      qkv: { shape: shapes.qkv },
      ...coordinates(variant),
    },
    run: (tensors) =>
      packedAttentionForward({
        ...{ output: tensors.output!, logSumExp: tensors.logSumExp!, qkv: tensors.qkv! },
        ...optionsOf(variant, tensors),
      }),
    dtypes,
    tolerance: attentionTolerances.forward,
  };
}

function backwardCase(variant: Variant): OpCase {
  const shapes = shapesOf(variant);
  return {
    name: `packed_attention_backward ${variant.name} [${variant.lengths}]`,
    operation: 'packed_attention_backward',
    tensors: {
      qkvGradient: { shape: shapes.qkv, output: true },
      outputGradient: { shape: shapes.output },
      qkv: { shape: shapes.qkv },
      ...coordinates(variant),
    },
    run: (tensors) => {
      const { qkvGradient, outputGradient, qkv } = tensors;
      const device = qkv!.device;
      // What the forward pass of the same device leaves behind.
      const output = Tensor.empty({ shape: shapes.output, dtype: qkv!.dtype, device });
      const logSumExp = Tensor.empty({ shape: shapes.logSumExp, dtype: 'float32', device });
      const options = { output, logSumExp, qkv: qkv!, ...optionsOf(variant, tensors) };
      packedAttentionForward(options);
      packedAttentionBackward({
        ...options,
        qkvGradient: qkvGradient!,
        outputGradient: outputGradient!,
      });
      output.dispose();
      logSumExp.dispose();
    },
    dtypes,
    tolerance: attentionTolerances.backward,
  };
}

/** bert-base: 128 and 512 positions, most samples full. */
const benchmarkVariants: Variant[] = [
  { name: 'bert', lengths: [128, 128, 64, 128, 128, 128, 110, 128], heads: 12, headSize: 64 },
  { name: 'bert', lengths: [512, 470, 512, 330], heads: 12, headSize: 64 },
];

const benchmarks: OpCase[] = benchmarkVariants.flatMap((variant): OpCase[] => {
  const { lengths, heads, headSize } = variant;
  const productFlops = 2 * heads * headSize * lengths.reduce((sum, length) => sum + length ** 2, 0);
  const forward = forwardCase(variant);
  const { output, logSumExp, ...inputs } = forward.tensors;
  return [
    { ...forward, benchmark: { flops: 2 * productFlops } },
    {
      ...forward,
      name: `packed_attention_backward ${variant.name} [${lengths}]`,
      operation: 'packed_attention_backward',
      tensors: {
        qkvGradient: { shape: inputs.qkv!.shape, output: true },
        outputGradient: { shape: output!.shape },
        // Stand-ins for what the forward pass leaves behind: time does not depend on values.
        output: { shape: output!.shape },
        logSumExp: { ...logSumExp!, output: false, values: () => 6 },
        ...inputs,
      },
      run: (tensors) =>
        packedAttentionBackward({
          ...{ qkvGradient: tensors.qkvGradient!, outputGradient: tensors.outputGradient! },
          ...{ output: tensors.output!, logSumExp: tensors.logSumExp!, qkv: tensors.qkv! },
          ...optionsOf(variant, tensors),
        }),
      benchmark: { flops: 4 * productFlops },
    },
  ];
});

export const cases: readonly OpCase[] = [
  ...variants.map(forwardCase),
  ...variants.map(backwardCase),
  ...benchmarks,
];

const gradientVariants: Variant[] = [
  { name: 'two samples', lengths: [3, 2], heads: 2, headSize: 3, rest: 1 },
  { name: 'dropout', lengths: [4, 1], heads: 1, headSize: 2, dropout: 0.4 },
];

export const gradientCases: readonly GradientCase[] = gradientVariants.map((variant) => {
  const shapes = shapesOf(variant);
  return {
    name: `packed_attention ${variant.name} [${variant.lengths}]`,
    tensors: {
      qkv: { shape: shapes.qkv },
      logSumExp: { shape: shapes.logSumExp },
      output: { shape: shapes.output },
      ...coordinates(variant),
    },
    differentiable: ['qkv'],
    outputShape: shapes.output,
    forward: (tensors, output) =>
      packedAttentionForward({
        ...{ output, logSumExp: tensors.logSumExp!, qkv: tensors.qkv! },
        ...optionsOf(variant, tensors),
      }),
    backward: (tensors, outputGradient, gradients) => {
      const options = {
        ...{ output: tensors.output!, logSumExp: tensors.logSumExp!, qkv: tensors.qkv! },
        ...optionsOf(variant, tensors),
      };
      packedAttentionForward(options);
      packedAttentionBackward({ ...options, qkvGradient: gradients.qkv!, outputGradient });
    },
  };
});

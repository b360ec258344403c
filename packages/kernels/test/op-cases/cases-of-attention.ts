import { type DType, Tensor } from '../../src/index.js';
import type { CaseTable, GradientCase, OpCase, TensorSpec, Tensors } from './op-case.js';
import { attentionTolerances } from './tolerances.js';

/**
 * S sequence, B micro-batch, T rows of packed samples, A query heads in G groups that share keys and values,
 * R = A / G, D head size
 */
export interface AttentionShapes {
  /** [S, B, A, D] or [T, A, D] */
  readonly output: readonly number[];
  /** [B, A, S] or [A, T] */
  readonly logSumExp: readonly number[];
  /** [S, B, G, R + 2, D] or [T, G, R + 2, D] */
  readonly qkv: readonly number[];
}

interface ForwardTensors {
  readonly output: Tensor;
  readonly logSumExp: Tensor;
  readonly qkv: Tensor;
}

interface BackwardTensors extends ForwardTensors {
  readonly qkvGradient: Tensor;
  readonly outputGradient: Tensor;
}

/** Properties that a variant of any attention operation may have. */
export interface AttentionVariant {
  readonly name: string;
  /** The dtypes in which the case runs. Default: float32, bfloat16, float16. */
  readonly dtypes?: readonly DType[];
  readonly isOnlyForCuda?: boolean;
  /** The number of query heads that share a key and a value. Default: 1. */
  readonly headsPerGroup?: number;
}

/**
 * One way to call the attention operations: its variants, and the operands of a call in addition to qkv and
 * the results.
 */
export interface AttentionKind<Variant extends AttentionVariant, Options> {
  /** A part of the names of its cases, before the variant's name. Default: none. */
  readonly name?: string;
  /** The sizes that the name of a case contains. */
  readonly sizesOf: (variant: Variant) => readonly number[];
  readonly shapesOf: (variant: Variant) => AttentionShapes;
  /** The tensors that define which keys a query sees, and the sample numbers. */
  readonly maskTensors: (variant: Variant) => Readonly<Record<string, TensorSpec>>;
  readonly optionsOf: (variant: Variant, tensors: Tensors) => Options;
  readonly forward: (call: ForwardTensors & Options) => void;
  readonly backward: (call: BackwardTensors & Options) => void;
  /** FLOPs of one matmul, in all heads, of queries and keys or of probabilities and values. */
  readonly matmulFlops: (variant: Variant) => number;
}

export interface AttentionVariants<Variant> {
  /** Variants that are compared with the reference, forward and backward. */
  readonly variants: readonly Variant[];
  readonly benchmarks: readonly Variant[];
  /** Variants that are compared with finite differences. */
  readonly gradients: readonly Variant[];
}

/** Returns forward, backward, benchmarks and gradients of one way to call attention. */
export function casesOfAttention<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  { variants, benchmarks, gradients }: AttentionVariants<Variant>,
): Required<CaseTable> {
  return {
    cases: [
      ...variants.map((variant) => forwardCase(kind, variant)),
      ...variants.map((variant) => backwardCase(kind, variant)),
      ...benchmarks.flatMap((variant) => benchmarkCases(kind, variant)),
    ],
    gradientCases: gradients.map((variant) => gradientCase(kind, variant)),
  };
}

/** Returns the common part of all cases of one direction. */
function caseOf<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  variant: Variant,
  direction: 'forward' | 'backward',
) {
  const { name, dtypes, isOnlyForCuda } = variant;
  const operation = `attention_${direction}`;
  return {
    name: [
      operation,
      ...(kind.name === undefined ? [] : [kind.name]),
      name,
      `[${kind.sizesOf(variant)}]`,
    ].join(' '),
    operation,
    tolerance: attentionTolerances[direction],
    ...(dtypes && { dtypes }),
    ...(isOnlyForCuda && { isOnlyForCuda }),
  };
}

/** Returns the options of a call of either direction. */
function callOf<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  variant: Variant,
  tensors: Tensors,
): ForwardTensors & Options {
  const { output, logSumExp, qkv } = tensors;
  return {
    output: output!,
    logSumExp: logSumExp!,
    qkv: qkv!,
    ...kind.optionsOf(variant, tensors),
  };
}

function forwardCase<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  variant: Variant,
): OpCase {
  const shapes = kind.shapesOf(variant);
  return {
    ...caseOf(kind, variant, 'forward'),
    tensors: {
      output: { shape: shapes.output, output: true },
      logSumExp: { shape: shapes.logSumExp, dtype: 'float32', output: true },
      qkv: { shape: shapes.qkv },
      ...kind.maskTensors(variant),
    },
    run: (tensors) => kind.forward(callOf(kind, variant, tensors)),
  };
}

function backwardCase<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  variant: Variant,
): OpCase {
  const shapes = kind.shapesOf(variant);
  return {
    ...caseOf(kind, variant, 'backward'),
    tensors: {
      qkvGradient: { shape: shapes.qkv, output: true },
      outputGradient: { shape: shapes.output },
      qkv: { shape: shapes.qkv },
      ...kind.maskTensors(variant),
    },
    run: (tensors) => {
      const { qkvGradient, outputGradient, qkv } = tensors;
      const { device, dtype } = qkv!;
      // The results of the forward pass of the same device.
      using output = Tensor.empty({ shape: shapes.output, dtype, device });
      using logSumExp = Tensor.empty({ shape: shapes.logSumExp, dtype: 'float32', device });
      const call = callOf(kind, variant, { ...tensors, output, logSumExp });
      kind.forward(call);
      kind.backward({ ...call, qkvGradient: qkvGradient!, outputGradient: outputGradient! });
    },
  };
}

function benchmarkCases<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  variant: Variant,
): OpCase[] {
  const forward = forwardCase(kind, variant);
  const backward = backwardCase(kind, variant);
  const { output, logSumExp } = forward.tensors;
  const flops = 2 * kind.matmulFlops(variant);
  return [
    { ...forward, benchmark: { flops } },
    {
      ...backward,
      tensors: {
        ...backward.tensors,
        // Substitutes for the results of the forward pass: time does not depend on values.
        output: { shape: output!.shape },
        logSumExp: { ...logSumExp!, output: false, values: () => 6 },
      },
      run: (tensors) =>
        kind.backward({
          ...callOf(kind, variant, tensors),
          qkvGradient: tensors.qkvGradient!,
          outputGradient: tensors.outputGradient!,
        }),
      benchmark: { flops: 2 * flops },
    },
  ];
}

function gradientCase<Variant extends AttentionVariant, Options>(
  kind: AttentionKind<Variant, Options>,
  variant: Variant,
): GradientCase {
  const shapes = kind.shapesOf(variant);
  return {
    name: `attention ${kind.name ?? ''} ${variant.name} [${kind.sizesOf(variant)}]`,
    tensors: {
      qkv: { shape: shapes.qkv },
      logSumExp: { shape: shapes.logSumExp },
      output: { shape: shapes.output },
      ...kind.maskTensors(variant),
    },
    differentiable: ['qkv'],
    outputShape: shapes.output,
    forward: (tensors, output) => kind.forward({ ...callOf(kind, variant, tensors), output }),
    backward: (tensors, outputGradient, gradients) => {
      const call = callOf(kind, variant, tensors);
      kind.forward(call);
      kind.backward({ ...call, qkvGradient: gradients.qkv!, outputGradient });
    },
  };
}

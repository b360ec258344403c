import { UsageError } from '@mtl/errors';
import { declareStatistics, like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface GroupedMatmulOptions {
  /** `[..., N]` of R rows */
  readonly output: Tensor;
  /** `[..., K]` of R rows, sorted by group */
  readonly input: Tensor;
  /** `[G, N, K]` if `transposeWeights` is true, else `[G, K, N]` */
  readonly weights: Tensor;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
  readonly transposeWeights?: boolean;
}

/**
 * output[r] = input[r] @ op(weights[g]) for the rows r of group g, where op transposes if `transposeWeights`
 * is true; rows after the last group become zeros. An element's bits do not depend on how the rows are
 * grouped or on the number of threads. FLOPs are counted as if all rows were in a group.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for
 * invalid offsets
 */
export const groupedMatmul = returningOperation<GroupedMatmulOptions, 'output'>(
  'groupedMatmul',
  {
    output: ({ input, weights, transposeWeights = false }) =>
      like(input, [...input.shape.slice(0, -1), weights.dim(transposeWeights ? 1 : 2)]),
  },
  ({ output, input, weights, offsets, transposeWeights = false }) => {
    runOperation('grouped_matmul', { output, input, weights, offsets, transposeWeights });
  },
);

export interface GroupedWeightGradientOptions {
  /** `[G, N, K]` float32 */
  readonly weightGradient: Tensor;
  /** `[..., N]` of R rows */
  readonly outputGradient: Tensor;
  /** `[..., K]` of R rows */
  readonly input: Tensor;
  /** The offsets of the forward call. */
  readonly offsets: Tensor;
  /**
   * True to add to `weightGradient`. If a group has no rows, its gradient then stays unchanged instead of
   * becoming zero.
   */
  readonly accumulate?: boolean;
}

/**
 * weightGradient[g] = sum over the rows r of group g of outputGradient[r]^T @ input[r], in float32.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for
 * invalid offsets
 */
export const groupedWeightGradient = returningOperation<GroupedWeightGradientOptions, 'weightGradient'>(
  'groupedWeightGradient',
  {
    weightGradient: ({ outputGradient, input, offsets }) =>
      declareStatistics(input, [offsets.size - 1, outputGradient.dim(-1), input.dim(-1)]),
  },
  ({ weightGradient, outputGradient, input, offsets, accumulate = false }) => {
    runOperation('grouped_weight_gradient', { weightGradient, outputGradient, input, offsets, accumulate });
  },
);

export interface GroupedSumRowsOptions {
  /** [G, N] float32 */
  readonly output: Tensor;
  /** `[..., N]` of R rows */
  readonly input: Tensor;
  /** `[R]` float32. Default: 1 for every row. */
  readonly weights?: Tensor | undefined;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/**
 * output[g] = sum over the rows r of group g of weights[r] * input[r], in float32. This is the gradient of
 * all groups' biases.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for
 * invalid offsets
 */
export const groupedSumRows = returningOperation<GroupedSumRowsOptions, 'output'>(
  'groupedSumRows',
  { output: ({ input, offsets }) => declareStatistics(input, [offsets.size - 1, input.dim(-1)]) },
  ({ output, input, weights, offsets, accumulate = false }) => {
    runOperation('grouped_sum_rows', { output, input, weights, offsets, accumulate });
  },
);

export interface GroupedBiasForwardOptions {
  /** `[..., N]`; may be the memory of `input`. */
  readonly output: Tensor;
  /** `[..., N]` of R rows */
  readonly input: Tensor;
  /** [G, N] */
  readonly bias: Tensor;
  /** `[R]` float32. Default: 1 for every row. */
  readonly probabilities?: Tensor | undefined;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
}

/**
 * output[r] = input[r] + probabilities[r] * bias[g] for the rows r of group g; rows after the last group
 * become zeros.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for
 * invalid offsets
 */
export const groupedBiasForward = returningOperation<GroupedBiasForwardOptions, 'output'>(
  'groupedBiasForward',
  { output: ({ input }) => like(input) },
  ({ output, input, bias, probabilities, offsets }) => {
    runOperation('grouped_bias_forward', { output, input, bias, probabilities, offsets });
  },
);

export interface GroupedBiasBackwardOptions {
  /** `[R]` float32 */
  readonly probabilitiesGradient: Tensor;
  /** [..., N] */
  readonly outputGradient: Tensor;
  /** The operands of the forward call. */
  readonly bias: Tensor;
  readonly offsets: Tensor;
}

/**
 * probabilitiesGradient[r] = sum over N of outputGradient[r] * bias[g]. The gradient of the bias is
 * `groupedSumRows` with the probabilities as weights.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for
 * invalid offsets
 */
export const groupedBiasBackward = returningOperation<GroupedBiasBackwardOptions, 'probabilitiesGradient'>(
  'groupedBiasBackward',
  {
    probabilitiesGradient: ({ outputGradient }) =>
      declareStatistics(outputGradient, [outputGradient.size / outputGradient.dim(-1)]),
  },
  ({ probabilitiesGradient, outputGradient, bias, offsets }) => {
    runOperation('grouped_bias_backward', { probabilitiesGradient, outputGradient, bias, offsets });
  },
);

/**
 * The activation function between an expert's two matmuls. `swiglu`: silu(gate) * value; `clampedQuickGeglu`:
 * gate * sigmoid(1.702 * gate) * value (OpenAI 2025, gpt-oss). For both, the input consists of F gates
 * followed by F values.
 */
export type ExpertActivation = 'swiglu' | 'geluTanh' | 'geluErf' | 'squaredRelu' | 'clampedQuickGeglu';

const activations: readonly ExpertActivation[] = [
  'swiglu',
  'geluTanh',
  'geluErf',
  'squaredRelu',
  'clampedQuickGeglu',
];

function activationNumber(activation: ExpertActivation): number {
  const number = activations.indexOf(activation);
  if (number >= 0) return number;
  throw new UsageError('MTL_ARGUMENT', `unknown activation ${String(activation)}`, {
    expected: activations.join(', '),
  });
}

/** Returns true if an activation has gates, which makes its input twice as wide as its output. */
function isGatedActivation(activation: ExpertActivation): boolean {
  return activation === 'swiglu' || activation === 'clampedQuickGeglu';
}

export interface ExpertActivationOptions {
  readonly activation: ExpertActivation;
  /**
   * The limit of gated activations: the maximum of a gate, and of a value's magnitude. A number equal to the
   * limit has the same gradient as without a limit. Default: 0, which means no limit.
   */
  readonly clamp?: number | undefined;
  /** The term that gated activations add to values. Default: 0. */
  readonly linearOffset?: number | undefined;
}

export interface ExpertActivationForwardOptions extends ExpertActivationOptions {
  /** `[..., F]` of R rows */
  readonly output: Tensor;
  /** `[..., W]` with R rows. For gated activations, W is 2F (F gates followed by F values), otherwise F. */
  readonly input: Tensor;
  /** [G, W] */
  readonly bias?: Tensor | undefined;
  /** `[R]` float32: the factor of each row */
  readonly probabilities?: Tensor | undefined;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
}

/**
 * output[r] = act(input[r] + bias[g]) * probabilities[r] for the rows r of group g, computed in float32 and
 * rounded once; rows after the last group become zeros.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other,
 *   `MTL_INDEX` for invalid offsets
 */
export const expertActivationForward = returningOperation<ExpertActivationForwardOptions, 'output'>(
  'expertActivationForward',
  {
    output: ({ input, activation }) =>
      like(input, [...input.shape.slice(0, -1), input.dim(-1) / (isGatedActivation(activation) ? 2 : 1)]),
  },
  (options) => {
    const { output, input, bias, probabilities, offsets, clamp = 0, linearOffset = 0 } = options;
    const activation = activationNumber(options.activation);
    const tensors = { output, input, bias, probabilities, offsets };
    runOperation('expert_activation_forward', { ...tensors, activation, clamp, linearOffset });
  },
);

export interface ExpertActivationBackwardOptions extends ExpertActivationOptions {
  /** `[..., W]`. Its sum over the rows of each group is the bias gradient (see `groupedSumRows`). */
  readonly inputGradient: Tensor;
  /** [R] float32; may be omitted */
  readonly probabilitiesGradient?: Tensor | undefined;
  /** [..., F] */
  readonly outputGradient: Tensor;
  /** The operands of the forward call. */
  readonly input: Tensor;
  readonly bias?: Tensor | undefined;
  readonly probabilities?: Tensor | undefined;
  readonly offsets: Tensor;
}

/**
 * Computes the gradients of the input and the probabilities.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other,
 *   `MTL_INDEX` for invalid offsets
 */
export const expertActivationBackward = returningOperation<ExpertActivationBackwardOptions, 'inputGradient'>(
  'expertActivationBackward',
  { inputGradient: ({ input }) => like(input) },
  (options) => {
    const { inputGradient, probabilitiesGradient, outputGradient, input, bias, probabilities, offsets } =
      options;
    const { clamp = 0, linearOffset = 0 } = options;
    const activation = activationNumber(options.activation);
    const gradients = { inputGradient, probabilitiesGradient, outputGradient };
    const tensors = { ...gradients, input, bias, probabilities, offsets };
    runOperation('expert_activation_backward', { ...tensors, activation, clamp, linearOffset });
  },
);

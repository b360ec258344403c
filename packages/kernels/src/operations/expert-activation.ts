import { UsageError } from '@mtl/errors';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * The activation between the two matmuls of an expert. `swiglu`: silu(gate) * value; `clampedQuickGeglu`:
 * gate * sigmoid(1.702 gate) * value (OpenAI 2025, gpt-oss). Both have inputs of F gates, then F values.
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

/** Whether an activation has gates, and so an input of twice the width of its output. */
function isGatedActivation(activation: ExpertActivation): boolean {
  return activation === 'swiglu' || activation === 'clampedQuickGeglu';
}

export interface ExpertActivationOptions {
  readonly activation: ExpertActivation;
  /**
   * Of gated activations: the most that a gate is, and a value on either side of 0. A gradient passes where
   * it is met exactly. Default 0: none.
   */
  readonly clamp?: number | undefined;
  /** Of gated activations: added to values. Default 0. */
  readonly linearOffset?: number | undefined;
}

export interface ExpertActivationForwardOptions extends ExpertActivationOptions {
  /** `[..., F]` of R rows */
  readonly output: Tensor;
  /** `[..., W]` of R rows: W is 2F (F gates, then F values) for gated activations, F for others. */
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
 * rounded once; rows behind the last group become zeros.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for offsets that are none
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
  /** `[..., W]`; its sums over the rows of a group are the bias gradient (`groupedSumRows`). */
  readonly inputGradient: Tensor;
  /** `[R]` float32; left out where none is wanted */
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
 * The gradients of input and probabilities.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for offsets that are none
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

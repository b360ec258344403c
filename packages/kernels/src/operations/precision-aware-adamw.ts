import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';
import type { AdamwOptions } from './adamw.js';

export interface PrecisionAwareAdamwOptions
  extends Omit<AdamwOptions, 'parameter' | 'firstMoment' | 'secondMoment' | 'modelParameter' | 'gradient'> {
  /**
   * [N] float32, updated. If `remainder` is given, [N] bfloat16: the values with which the model computes.
   */
  readonly parameter: Tensor;
  /** [2 N] uint8, updated: the lower 16 bits of the float32 values, as `splitRemainder` writes them. */
  readonly remainder?: Tensor | undefined;
  /** [N] bfloat16 or float16: receives the rounded values of a float32 parameter. */
  readonly modelParameter?: Tensor | undefined;
  /** [N] float32, bfloat16 or float16, updated. */
  readonly firstMoment: Tensor;
  /** [M] float32, updated: the scales of a first moment in float16, one for each segment. Initially zero. */
  readonly firstScales?: Tensor | undefined;
  readonly secondMoment: Tensor;
  /** [M] float32, updated: the scales of a second moment in float16. Initially zero. */
  readonly secondScales?: Tensor | undefined;
  /** [N] float32 or bfloat16 */
  readonly gradient: Tensor;
}

/**
 * Performs an AdamW step like `adamw`, but moments, parameters and gradients have separate dtypes. The update
 * is computed in float32, from moments before they are rounded.
 */
export const precisionAwareAdamw = checkedOperation(
  'precisionAwareAdamw',
  (options: PrecisionAwareAdamwOptions): void => {
    const { parameter, remainder, modelParameter, firstMoment, firstScales, secondMoment } = options;
    const { secondScales, gradient, scalars, segments } = options;
    const { beta1, beta2, epsilon, weightDecay, clearGradient = false } = options;
    runOperation('precision_aware_adamw', {
      parameter,
      remainder,
      modelParameter,
      firstMoment,
      firstScales,
      secondMoment,
      secondScales,
      gradient,
      scalars,
      segments,
      beta1,
      beta2,
      epsilon,
      weightDecay,
      clearGradient,
    });
  },
);

export interface SplitRemainderOptions {
  /** [N] bfloat16: receives the nearest values. For a tie, this is the value with the larger magnitude. */
  readonly rounded: Tensor;
  /** [2 N] uint8: receives the lower 16 bits of each value, lower byte first. */
  readonly remainder: Tensor;
  /** [N] float32. If a value is NaN, its payload is lost. */
  readonly input: Tensor;
}

/** Splits float32 values into bfloat16 values and remainders. `joinRemainder` is the inverse. */
export const splitRemainder = checkedOperation(
  'splitRemainder',
  ({ rounded, remainder, input }: SplitRemainderOptions): void => {
    runOperation('split_remainder', { rounded, remainder, input });
  },
);

export interface JoinRemainderOptions {
  /** [N] float32 */
  readonly output: Tensor;
  /** [N] bfloat16 */
  readonly rounded: Tensor;
  /** [2 N] uint8 */
  readonly remainder: Tensor;
}

/** Restores float32 values that `splitRemainder` has split. */
export const joinRemainder = checkedOperation(
  'joinRemainder',
  ({ output, rounded, remainder }: JoinRemainderOptions): void => {
    runOperation('join_remainder', { output, rounded, remainder });
  },
);

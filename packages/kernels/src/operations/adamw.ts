import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface AdamwOptions {
  /** [N] float32, updated. */
  readonly parameter: Tensor;
  readonly firstMoment: Tensor;
  readonly secondMoment: Tensor;
  /** [N] bfloat16 or float16: receives the updated parameter, rounded. */
  readonly modelParameter?: Tensor | undefined;
  /** [N] float32 */
  readonly gradient: Tensor;
  /**
   * [5] float32, computed by `adamwScalars`: the learning rate, 1 - beta1^t, 1 - beta2^t, the factor on the
   * gradient, and 0 to skip the update.
   */
  readonly scalars: Tensor;
  /**
   * [M, 2] int64: for each parameter, the index at which it ends in the buffers, in ascending order, and 1 if
   * weight decay applies to it.
   */
  readonly segments: Tensor;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** True to set the gradient to zero in the same pass over memory, even in a step that updates nothing. */
  readonly clearGradient?: boolean;
}

export interface AdamwScalarsOptions {
  /** [5] float32 */
  readonly scalars: Tensor;
  /**
   * [1] float64: receives the norm of the gradients, without the loss scale and before clipping. It is
   * infinite or NaN if a gradient is.
   */
  readonly gradientNorm: Tensor;
  /** [1] float64: the sum of squares of all gradients. Each gradient includes the factor `lossScale`. */
  readonly squares: Tensor;
  readonly learningRate: number;
  /** 1 - beta1^t */
  readonly correction1: number;
  /** 1 - beta2^t */
  readonly correction2: number;
  readonly lossScale: number;
  /** The maximum norm. Gradients with a larger norm are scaled down to it. 0 means no clipping. */
  readonly clipGrad: number;
}

/**
 * Computes the scalars of `adamw` on the device, from the norm of the gradients. The host therefore need not
 * wait for the norm before it clips gradients, or before it skips a step whose gradients are not finite. As
 * in Megatron and PyTorch, a term of 1e-6 in the factor on the gradient prevents a division by zero.
 */
export const adamwScalars = checkedOperation('adamwScalars', (options: AdamwScalarsOptions): void => {
  const { scalars, gradientNorm, squares, learningRate, correction1, correction2 } = options;
  const { lossScale, clipGrad } = options;
  runOperation('adamw_scalars', {
    scalars,
    gradientNorm,
    squares,
    learningRate,
    correction1,
    correction2,
    lossScale,
    clipGrad,
  });
});

/** Performs an AdamW step (Loshchilov and Hutter 2019) over all parameters in one pass. */
export const adamw = checkedOperation('adamw', (options: AdamwOptions): void => {
  const { parameter, firstMoment, secondMoment, modelParameter, gradient, scalars, segments } = options;
  const { beta1, beta2, epsilon, weightDecay, clearGradient = false } = options;
  runOperation('adamw', {
    parameter,
    firstMoment,
    secondMoment,
    modelParameter,
    gradient,
    scalars,
    segments,
    beta1,
    beta2,
    epsilon,
    weightDecay,
    clearGradient,
  });
});

import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface AdamwOptions {
  /** [N] float32, updated. */
  readonly parameter: Tensor;
  readonly firstMoment: Tensor;
  readonly secondMoment: Tensor;
  /** [N] bfloat16 or float16: receives the rounded parameter. */
  readonly modelParameter?: Tensor | undefined;
  /** [N] float32 */
  readonly gradient: Tensor;
  /** [4] float32: learning rate, 1 - beta1^t, 1 - beta2^t, factor on the gradient (clipping and loss scale). */
  readonly scalars: Tensor;
  /** [M, 2] int64: end of each parameter in the buffers, ascending, and 1 where weight decay applies. */
  readonly segments: Tensor;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Sets the gradient to zero in the same pass over memory. */
  readonly clearGradient?: boolean;
}

/** One AdamW step (Loshchilov and Hutter 2019) over all parameters in one pass. */
export function adamw(options: AdamwOptions): void {
  const { parameter, firstMoment, secondMoment, modelParameter, gradient, scalars, segments } = options;
  runOperation(
    'adamw',
    [parameter, firstMoment, secondMoment, modelParameter, gradient, scalars, segments],
    [options.beta1, options.beta2, options.epsilon, options.weightDecay, options.clearGradient ?? false],
  );
}

import type { Tensor } from '@mtl/kernels';

/**
 * A tensor that other processes help to make: under way, and the caller's to dispose of when `wait` has given
 * it.
 */
export interface PendingTensor {
  wait(): Tensor;
}

/**
 * Starts to trade a tensor for what it becomes together with those of other processes (their sum, all of them
 * one after the other ...). The tensor stays the caller's, who may dispose of it but not write to it before
 * `wait` has returned; the result may share its memory.
 */
export type Exchange = (tensor: Tensor) => PendingTensor;

/**
 * Where a product's operands come from and go to when they are spread over processes; absent: they are whole
 * here.
 */
export interface ProductExchanges {
  /** Makes the input that the product reads of the one on the tape; again for the weight gradient. */
  readonly gatherInput?: Exchange | undefined;
  /** Makes the gradient of the input on the tape of the product's. */
  readonly reduceInputGradient?: Exchange | undefined;
  /** Makes the output on the tape of the product's. */
  readonly reduceOutput?: Exchange | undefined;
  /** Makes the output gradient that backward reads of the one on the tape. */
  readonly gatherOutputGradient?: Exchange | undefined;
}

/** Starts an exchange; without one the tensor is there already. */
export function startExchange(exchange: Exchange | undefined, tensor: Tensor): PendingTensor {
  if (exchange !== undefined) return exchange(tensor);
  // made at once: the caller may let go of the tensor before it waits
  const same = tensor.view({ shape: tensor.shape });
  return { wait: () => same };
}

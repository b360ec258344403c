import type { Tensor } from '@mtl/kernels';

/**
 * The result of a collective in progress. `wait` returns the tensor, which the caller then disposes of.
 */
export interface PendingTensor {
  wait(): Tensor;
}

/**
 * Starts an asynchronous collective (all-reduce, all-gather ...) and returns a handle to its result. The
 * input still belongs to the caller, who may dispose of it but not write to it before `wait` has returned;
 * the result may share its memory.
 */
export type Collective = (tensor: Tensor) => PendingTensor;

/**
 * The collectives of a matmul whose operands are sharded over processes. Without one, its operand is
 * replicated.
 */
export interface MatmulCollectives {
  /**
   * Starts the collective from the input on the tape to the matmul's input; it runs again for the weight
   * gradient.
   */
  readonly gatherInput?: Collective | undefined;
  /** Starts the collective from the matmul's input gradient to the gradient of the input on the tape. */
  readonly reduceInputGradient?: Collective | undefined;
  /** Starts the collective that turns the matmul's output into the output on the tape. */
  readonly reduceOutput?: Collective | undefined;
  /**
   * Starts the collective that turns the gradient of the output on the tape into the gradient of the matmul's
   * output, which the matmul's backward reads.
   */
  readonly gatherOutputGradient?: Collective | undefined;
}

/** Starts a collective; without a collective the result is the tensor itself. */
export function startCollective(collective: Collective | undefined, tensor: Tensor): PendingTensor {
  if (collective !== undefined) return collective(tensor);
  // created at once: the caller may dispose of the tensor before it waits
  const same = tensor.view({ shape: tensor.shape });
  return { wait: () => same };
}

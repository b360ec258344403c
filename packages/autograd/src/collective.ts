import type { Tensor } from '@mtl/kernels';

/** The result of a collective in progress. The caller must dispose of the tensor that `wait` returns. */
export interface PendingTensor {
  wait(): Tensor;
}

/**
 * Starts an asynchronous collective (for example an all-reduce) and returns a handle to its result. The
 * caller still owns the input. The caller may dispose of it, but must not write to it before `wait` has
 * returned. The result may share the input's memory.
 */
export type Collective = (tensor: Tensor) => PendingTensor;

/**
 * The collectives around a matmul whose operands are sharded over ranks. An operand whose collective is
 * undefined is replicated.
 */
export interface MatmulCollectives {
  /**
   * Starts the collective that turns the tape's input into the matmul's input. Backward runs it again to
   * compute the weight gradient.
   */
  readonly gatherInput?: Collective | undefined;
  /** Starts the collective that turns the matmul's input gradient into the gradient of the tape's input. */
  readonly reduceInputGradient?: Collective | undefined;
  /** Starts the collective that turns the matmul's output into the tape's output. */
  readonly reduceOutput?: Collective | undefined;
  /**
   * Starts the collective that turns the gradient of the tape's output into the gradient of the matmul's
   * output. It runs before the matmul's backward pass.
   */
  readonly gatherOutputGradient?: Collective | undefined;
}

/** Starts the given collective. If `collective` is undefined, the result is a view of `tensor`. */
export function startCollective(collective: Collective | undefined, tensor: Tensor): PendingTensor {
  if (collective !== undefined) return collective(tensor);
  // the view is created immediately, because the caller may dispose of the tensor before the wait
  const same = tensor.view({ shape: tensor.shape });
  return { wait: () => same };
}

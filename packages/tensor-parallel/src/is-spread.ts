import type { TensorParallel } from './tensor-parallel.js';

/** Whether there is anything to share: more than one process. */
export function isSpread(tensorParallel: TensorParallel | undefined): tensorParallel is TensorParallel {
  return tensorParallel !== undefined && tensorParallel.group.size > 1;
}

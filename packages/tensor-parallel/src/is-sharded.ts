import type { TensorParallel } from './tensor-parallel.js';

/** Whether layers are sharded: the group has more than one process. */
export function isSharded(tensorParallel: TensorParallel | undefined): tensorParallel is TensorParallel {
  return tensorParallel !== undefined && tensorParallel.group.size > 1;
}

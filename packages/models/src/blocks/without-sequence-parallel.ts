import type { TensorParallel } from '@mtl/tensor-parallel';

/**
 * Returns the tensor parallelism of computations on rows that are gathered and replicated: gradients of their
 * parameters are never partial sums, even where the layers shard the sequence.
 */
export function withoutSequenceParallel(
  tensorParallel: TensorParallel | undefined,
): TensorParallel | undefined {
  return tensorParallel && { ...tensorParallel, sequenceParallel: false };
}

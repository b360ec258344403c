import type { ParameterOptions } from '@mtl/autograd';
import { isSharded, type TensorParallel } from '@mtl/tensor-parallel';

/**
 * Options of a parameter that is replicated over the tensor-parallel ranks: it is counted once in norms; and
 * under sequence parallelism, where each rank sees only its shard of the sequence, its gradient is a partial
 * sum.
 */
export function replicationOverTensorParallel(
  tensorParallel: TensorParallel | undefined,
): Pick<ParameterOptions, 'shardedOver' | 'partialOver'> {
  const isPartial = isSharded(tensorParallel) && tensorParallel.sequenceParallel;
  return { shardedOver: ['pp'], partialOver: isPartial ? ['tp'] : [] };
}

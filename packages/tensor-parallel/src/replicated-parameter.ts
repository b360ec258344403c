import { Parameter, type ParameterOptions } from '@mtl/autograd';
import { isSharded } from './is-sharded.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface ReplicatedParameterOptions
  extends Pick<ParameterOptions, 'name' | 'globalShape' | 'initialization' | 'decays'> {
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * A parameter that is replicated over the tensor-parallel ranks and used between the tensor-parallel regions
 * (norms, biases of row-parallel layers, tables of positions). It is counted once in norms; under sequence
 * parallelism, where each rank sees only its shard of the sequence, its gradient is a partial sum.
 */
export function replicatedParameter({ tensorParallel, ...options }: ReplicatedParameterOptions): Parameter {
  const shardsRows = isSharded(tensorParallel) && tensorParallel.sequenceParallel;
  return new Parameter({ ...options, shardedOver: ['pp'], rowsShardedOver: shardsRows ? ['tp'] : [] });
}

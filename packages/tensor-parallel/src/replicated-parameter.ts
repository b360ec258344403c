import { Parameter, type ParameterOptions } from '@mtl/autograd';
import { isSharded, type TensorParallel } from './tensor-parallel.js';

export interface ReplicatedParameterOptions
  extends Pick<ParameterOptions, 'name' | 'globalShape' | 'initialization' | 'decays' | 'matrices'> {
  /**
   * True if the parameter is used inside the tensor-parallel regions, on each rank's heads or features.
   * Default: it is used between the regions.
   */
  readonly insideRegions?: boolean | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Makes a parameter that is replicated over the tensor-parallel ranks. It is used between the tensor-parallel
 * regions (norms, biases of row-parallel layers, position embeddings) or inside them (norms of heads), and
 * counts only once in gradient norms. Its gradient is a partial sum if each rank sees only a shard of the
 * activations: between the regions, a shard of the sequence under sequence parallelism; inside the regions,
 * always a shard of the heads.
 */
export function replicatedParameter(options: ReplicatedParameterOptions): Parameter {
  const { tensorParallel, insideRegions = false, ...own } = options;
  const isPartial = isSharded(tensorParallel) && (insideRegions || tensorParallel.sequenceParallel);
  return new Parameter({ ...own, placement: { rows: isPartial ? ['tp'] : [] } });
}

import type { ProcessGroup } from '@mtl/comm';

/**
 * How layers are sharded over processes. Without it (undefined), or with a group of one process, a layer is
 * not sharded and nothing is communicated.
 */
export interface TensorParallel {
  /**
   * The processes that share a layer: heads, feed-forward features and vocabulary are sharded by position in
   * this group.
   */
  readonly group: ProcessGroup;
  /**
   * Whether activations between the parallel matmuls (layer norms, dropout, residuals) are sharded along the
   * sequence (Korthikanti et al. 2022): all-gather and reduce-scatter replace all-reduce.
   */
  readonly sequenceParallel: boolean;
}

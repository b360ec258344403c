import type { ProcessGroup } from '@mtl/comm';

/**
 * How layers are spread over processes. Without it (undefined), or with a group of one process, a layer is
 * whole and nothing is communicated.
 */
export interface TensorParallel {
  /**
   * The processes that share a layer: heads, feed-forward features and vocabulary are cut by position in this
   * group.
   */
  readonly group: ProcessGroup;
  /**
   * Whether activations between the parallel products (layer norms, dropout, residuals) are cut along the
   * sequence (Korthikanti et al. 2022): all-gather and reduce-scatter take the place of all-reduce.
   */
  readonly sequenceParallel: boolean;
}

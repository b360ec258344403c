import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, nearestDivisors, nearestMultiples } from '@mtl/errors';
import type { Slice } from '@mtl/layout';

/**
 * The sharding of layers over processes. Without it (undefined), or with a group of one process, a layer is
 * not sharded and nothing is communicated.
 */
export interface TensorParallel {
  /**
   * The processes that share a layer: heads, feed-forward features and vocabulary are sharded by position in
   * this group.
   */
  readonly group: ProcessGroup;
  /**
   * True if activations between the parallel matmuls (layer norms, dropout, residuals) are sharded along the
   * sequence (Korthikanti et al. 2022): all-gather and reduce-scatter then replace all-reduce.
   */
  readonly sequenceParallel: boolean;
}

/** Returns true if layers are sharded: the group has more than one process. */
export function isSharded(tensorParallel: TensorParallel | undefined): tensorParallel is TensorParallel {
  return tensorParallel !== undefined && tensorParallel.group.size > 1;
}

/**
 * Returns the slice of this process of `size` items (heads, features, tokens of a vocabulary, positions):
 * equal slices, by position in the group.
 *
 * `what`: names the items in the error, in the plural
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when the group's size does not divide `size`; names the
 *   nearest numbers of processes and of items that work
 */
export function sliceOfRank(
  tensorParallel: TensorParallel | undefined,
  { size, what }: { readonly size: number; readonly what: string },
): Slice {
  if (!isSharded(tensorParallel)) return { start: 0, end: size };
  const { rank, size: numRanks } = tensorParallel.group;
  if (size % numRanks === 0) {
    const each = size / numRanks;
    return { start: rank * each, end: (rank + 1) * each };
  }
  const sizes = nearestMultiples(numRanks, size);
  const ranks = nearestDivisors(size, numRanks);
  throw new ConfigurationError(
    'MTL_TENSOR_PARALLEL_SIZE',
    `${size} ${what} cannot be divided evenly over ${numRanks} tensor-parallel processes`,
    {
      expected: `${ranks.join(' or ')} processes, or ${sizes.join(' or ')} ${what}`,
      details: { what, size, numRanks, nearestSizes: sizes, nearestNumRanks: ranks },
    },
  );
}

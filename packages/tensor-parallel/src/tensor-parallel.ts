import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, nearestDivisors, nearestMultiples } from '@mtl/errors';
import type { Slice } from '@mtl/layout';

/**
 * How layers are sharded over processes. If undefined, or with a group of one process, layers are not sharded
 * and nothing is communicated.
 */
export interface TensorParallel {
  /**
   * The group of processes that share a layer. Heads, feed-forward features and the vocabulary are sharded in
   * its rank order.
   */
  readonly group: ProcessGroup;
  /**
   * True if activations between the parallel matmuls (layer norms, dropout, residuals) are sharded along the
   * sequence (Korthikanti et al. 2022). In this case, all-gather and reduce-scatter replace all-reduce.
   */
  readonly sequenceParallel: boolean;
}

/** Returns true if layers are sharded, that is, if the group has more than one process. */
export function isSharded(tensorParallel: TensorParallel | undefined): tensorParallel is TensorParallel {
  return tensorParallel !== undefined && tensorParallel.group.size > 1;
}

/**
 * Returns this process's slice of `size` items (heads, features, vocabulary entries, positions). The slices
 * are equal, in the rank order of the group.
 *
 * `what`: the plural noun for the items, for the error
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if `size` is not divisible by the group's size; its
 * message
 *   names the nearest valid numbers of processes and of items
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

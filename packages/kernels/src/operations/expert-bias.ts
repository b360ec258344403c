import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface UpdateExpertBiasOptions {
  /** [E] float32, updated */
  readonly expertBias: Tensor;
  /** [E] int64: the rows of each expert */
  readonly counts: Tensor;
  readonly rate: number;
}

/**
 * expertBias[e] += rate * sign(mean of counts - counts[e]): balance without a loss (Wang et al. 2024, arXiv
 * 2408.15664). The comparison is one of integers.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit
 */
export const updateExpertBias = checkedOperation(
  'updateExpertBias',
  ({ expertBias, counts, rate }: UpdateExpertBiasOptions): void => {
    runOperation('update_expert_bias', { expertBias, counts, rate });
  },
);

export interface AddCountsOptions {
  /** [E] int64, added to */
  readonly counts: Tensor;
  /** `[E + 1]` int32, of `groupByExpert` */
  readonly offsets: Tensor;
}

/**
 * counts[e] += offsets[e + 1] - offsets[e]: the rows of each expert over many calls.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const addCounts = checkedOperation('addCounts', ({ counts, offsets }: AddCountsOptions): void => {
  runOperation('add_counts', { counts, offsets });
});

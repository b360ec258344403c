import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/** S query positions, B micro-batch, A query heads, D head size, T rows of packed samples. */
export interface MergeAttentionOptions {
  /**
   * [S, B, A, D], packed [T, A, D], float32 (float64 on the reference): the output of the keys so far;
   * becomes that of both parts.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], packed [A, T]: becomes that of both parts. This and the part's may be strided views whose last
   * dimension is contiguous.
   */
  readonly logSumExp: Tensor;
  /** As `output`: of the same queries and other keys. */
  readonly partOutput: Tensor;
  /** As `logSumExp` */
  readonly partLogSumExp: Tensor;
}

/**
 * Merges the results of `attentionForward` over some keys with those of the same queries over other keys, in
 * place: the results over all of them (ring attention, Liu et al. 2023). A query without keys in one part
 * keeps the bits of the other.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, and for outputs that share
 *   memory with the part
 */
export const mergeAttention = checkedOperation(
  'mergeAttention',
  ({ output, logSumExp, partOutput, partLogSumExp }: MergeAttentionOptions): void => {
    runOperation('merge_attention', { output, logSumExp, partOutput, partLogSumExp });
  },
);

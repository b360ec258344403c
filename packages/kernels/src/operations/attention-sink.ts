import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/** S query positions, B micro-batch, A query heads, E value head size, T rows of packed samples. */
export interface AttentionSinkForwardOptions {
  /**
   * [S, B, A, E], packed [T, A, E]: the output of `attentionForward` over all keys. The operation replaces it
   * by the output with the sinks.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], packed [A, T]: the log-sum-exp of `attentionForward`; becomes the log-sum-exp with the sinks.
   */
  readonly logSumExp: Tensor;
  /** [A], of any floating dtype: the score of each head's sink. Default: 0 for each head. */
  readonly sinks?: Tensor | undefined;
}

/**
 * Adds a sink to the softmax of every query (Xiao et al. 2023; OpenAI 2025, "gpt-oss"). A sink is a key for
 * all queries. Its score is a number for each head, and its value is 0, so that a query may attend to no real
 * key. The operation works in place. If results for different keys are merged, call it after the merge.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const attentionSinkForward = checkedOperation(
  'attentionSinkForward',
  ({ output, logSumExp, sinks }: AttentionSinkForwardOptions): void => {
    runOperation('attention_sink_forward', { output, logSumExp, sinks });
  },
);

/** B micro-batch, A query heads, S query positions, T rows of packed samples. */
export interface AttentionSinkBackwardOptions {
  /** [A] float32 (float64 over float64). The call adds to it. */
  readonly sinksGradient: Tensor;
  /**
   * [B, A, S], packed [A, T]: `attentionRowSums` of the output with sinks and the gradient of this output.
   */
  readonly rowSums: Tensor;
  /** [B, A, S], packed [A, T]: the log-sum-exp with sinks. */
  readonly logSumExp: Tensor;
  /** [A] */
  readonly sinks: Tensor;
}

/**
 * Adds the gradient of sinks to `sinksGradient`. `attentionBackward` computes the gradients of query, key and
 * value, with the same row sums and log-sum-exp as this call.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const attentionSinkBackward = checkedOperation(
  'attentionSinkBackward',
  ({ sinksGradient, rowSums, logSumExp, sinks }: AttentionSinkBackwardOptions): void => {
    runOperation('attention_sink_backward', { sinksGradient, rowSums, logSumExp, sinks });
  },
);

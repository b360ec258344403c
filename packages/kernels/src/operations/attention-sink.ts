import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * S is the number of query positions, B the micro-batch size, A the number of query heads, E the value head
 * size, and T the number of rows of packed samples.
 */
export interface AttentionSinkForwardOptions {
  /**
   * [S, B, A, E], or [T, A, E] for packed samples: the output of `attentionForward` over all keys. The
   * operation replaces it with the output that includes the sinks.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], or [A, T] for packed samples: the log-sum-exp of `attentionForward`. The operation replaces it
   * with the log-sum-exp that includes the sinks.
   */
  readonly logSumExp: Tensor;
  /** [A], of any floating dtype: the score of each head's sink. Default: 0 for all heads. */
  readonly sinks?: Tensor | undefined;
}

/**
 * Adds a sink to the softmax of every query (Xiao et al. 2023; OpenAI 2025, "gpt-oss"). A sink is a key to
 * which all queries attend. Its score is a parameter of the head, and its value is 0, so that a query can
 * attend to no real key. The operation works in place. If results for different keys are merged, call it
 * after the merge.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const attentionSinkForward = checkedOperation(
  'attentionSinkForward',
  ({ output, logSumExp, sinks }: AttentionSinkForwardOptions): void => {
    runOperation('attention_sink_forward', { output, logSumExp, sinks });
  },
);

/**
 * B is the micro-batch size, A the number of query heads, S the number of query positions, and T the number
 * of rows of packed samples.
 */
export interface AttentionSinkBackwardOptions {
  /** [A] float32 (float64 if the operands are float64). The call adds to it. */
  readonly sinksGradient: Tensor;
  /**
   * [B, A, S], or [A, T] for packed samples: `attentionRowSums` of the output with sinks and this output's
   * gradient.
   */
  readonly rowSums: Tensor;
  /** [B, A, S], or [A, T] for packed samples: the log-sum-exp with sinks. */
  readonly logSumExp: Tensor;
  /** [A] */
  readonly sinks: Tensor;
}

/**
 * Adds the gradient of the sinks to `sinksGradient`. `attentionBackward` computes the gradients of query, key
 * and value, given the same row sums and log-sum-exp as this call.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const attentionSinkBackward = checkedOperation(
  'attentionSinkBackward',
  ({ sinksGradient, rowSums, logSumExp, sinks }: AttentionSinkBackwardOptions): void => {
    runOperation('attention_sink_backward', { sinksGradient, rowSums, logSumExp, sinks });
  },
);

import { returningOperation, statisticsOf } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/** S positions, B micro-batch, A query heads, D head size, T rows of packed samples. */
export interface AttentionRowSumsOptions {
  /** [B, A, S], packed [A, T], float32 (float64 over float64) */
  readonly rowSums: Tensor;
  /**
   * [S, B, A, D], packed [T, A, D]: that of `attentionForward`, in float32 or the dtype of its gradient.
   */
  readonly output: Tensor;
  /** As `output` */
  readonly outputGradient: Tensor;
}

/**
 * rowSums = the sum over the head size of output times its gradient: all that `attentionBackward` needs of
 * the output (Dao 2023, "FlashAttention-2", algorithm 2, line 4).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const attentionRowSums = returningOperation<AttentionRowSumsOptions, 'rowSums'>(
  'attentionRowSums',
  {
    rowSums: ({ outputGradient }) => {
      const [rows, ...heads] = outputGradient.shape.slice(0, -1);
      return statisticsOf(outputGradient, [...heads, rows!]);
    },
  },
  ({ rowSums, output, outputGradient }) => {
    runOperation('attention_row_sums', { rowSums, output, outputGradient });
  },
);

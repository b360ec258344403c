import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface MatmulOptions {
  /** [..., M, N], of the inputs' dtype, or float32 over bfloat16 or float16 inputs. */
  readonly output: Tensor;
  /** [..., M, K], or [..., K, M] when `transposeLeft`. */
  readonly left: Tensor;
  /**
   * [..., K, N], or [..., N, K] when `transposeRight`; without leading dimensions it serves the whole batch.
   */
  readonly right: Tensor;
  /** [N], added to every row. */
  readonly bias?: Tensor | undefined;
  readonly transposeLeft?: boolean;
  readonly transposeRight?: boolean;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/**
 * output = op(left) op(right) + bias. With a two-dimensional `right` (or a transposed `left` and a
 * two-dimensional output) the leading dimensions of `left` are folded: into rows, or, transposed, into the
 * sum. That is the weight gradient:
 * `matmul({ output: dW, left: dY, right: X, transposeLeft: true, accumulate: true })`.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_SHAPE` for an `output`
 *   that shares memory with another tensor
 */
export const matmul = checkedOperation('matmul', (options: MatmulOptions): void => {
  const {
    output,
    left,
    right,
    bias,
    transposeLeft = false,
    transposeRight = false,
    accumulate = false,
  } = options;
  runOperation('matmul', { output, left, right, bias, transposeLeft, transposeRight, accumulate });
});

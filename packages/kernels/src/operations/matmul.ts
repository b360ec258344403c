import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor, TensorOptions } from '../tensor.js';

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
 * Returns [..., M, N]: a sum over leading dimensions, such as a weight gradient, needs an output of the
 * caller's.
 */
function outputOfMatmul(inputs: Omit<MatmulOptions, 'output'>): Required<TensorOptions> {
  const { left, right, transposeLeft = false, transposeRight = false } = inputs;
  const rows = left.dim(transposeLeft ? -1 : -2);
  const columns = right.dim(transposeRight ? -2 : -1);
  return like(left, [...left.shape.slice(0, -2), rows, columns]);
}

/**
 * output = op(left) op(right) + bias. With a two-dimensional `right` (or a transposed `left` and a
 * two-dimensional output) the leading dimensions of `left` are folded: into rows, or, transposed, into the
 * sum. That is the weight gradient:
 * `matmul({ output: dW, left: dY, right: X, transposeLeft: true, accumulate: true })`.
 *
 * Without `output` the call returns a new tensor [..., M, N] of the inputs' dtype, with the leading
 * dimensions of `left`.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_SHAPE` for an `output`
 *   that shares memory with another tensor
 */
export const matmul = returningOperation<MatmulOptions, 'output'>(
  'matmul',
  { output: outputOfMatmul },
  (options) => {
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
  },
);

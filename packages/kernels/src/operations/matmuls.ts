import { checkedOperation } from '../checked-operation.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor, TensorOptions } from '../tensor.js';
import { type GeluKind, isErf } from './activations.js';

export interface MatmulOptions {
  /** [..., M, N], with the inputs' dtype, or float32 for bfloat16 or float16 inputs. */
  readonly output: Tensor;
  /** [..., M, K], or [..., K, M] when `transposeLeft`. */
  readonly left: Tensor;
  /**
   * [..., K, N], or [..., N, K] if `transposeRight` is true. If it has no leading dimensions, the complete
   * batch shares it.
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
 * Describes an output [..., M, N]. For a sum over leading dimensions, such as a weight gradient, the caller
 * must give `output`.
 */
function outputOfMatmul(inputs: Omit<MatmulOptions, 'output'>): Required<TensorOptions> {
  const { left, right, transposeLeft = false, transposeRight = false } = inputs;
  const rows = left.dim(transposeLeft ? -1 : -2);
  const columns = right.dim(transposeRight ? -2 : -1);
  return like(left, [...left.shape.slice(0, -2), rows, columns]);
}

/**
 * output = op(left) @ op(right) + bias, where op transposes an operand if the options request it. If `right`
 * has two dimensions, the leading dimensions of `left` are folded into rows. If `left` is transposed and the
 * output has two dimensions, the matmul sums over the leading dimensions. An example is a weight gradient:
 * `matmul({ output: dW, left: dY, right: X, transposeLeft: true, accumulate: true })`.
 *
 * If `output` is omitted, the call returns a new tensor [..., M, N] with the inputs' dtype and the leading
 * dimensions of `left`.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_SHAPE` for an
 *   `output` that shares memory with an input
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

export interface LinearGeluForwardOptions {
  /** [..., F] */
  readonly output: Tensor;
  /** `[..., F]`: GELU's input, which backward needs. */
  readonly preactivation: Tensor;
  /** [..., H] */
  readonly input: Tensor;
  /** [F, H] */
  readonly weight: Tensor;
  /** [F] */
  readonly bias: Tensor;
  readonly kind: GeluKind;
}

function outputOfLinear({
  input,
  weight,
}: Pick<LinearGeluForwardOptions, 'input' | 'weight'>): Required<TensorOptions> {
  return like(input, [...input.shape.slice(0, -1), weight.dim(0)]);
}

/**
 * preactivation = input @ weight^T + bias; output = gelu(preactivation). If the device's matmuls support it,
 * a single pass over memory computes both.
 */
export const linearGeluForward = returningOperation<LinearGeluForwardOptions, 'output' | 'preactivation'>(
  'linearGeluForward',
  { output: outputOfLinear, preactivation: outputOfLinear },
  (options) => {
    const { output, preactivation, input, weight, bias, kind } = options;
    runOperation('linear_gelu_forward', { output, preactivation, input, weight, bias, erf: isErf(kind) });
  },
);

export interface LinearGeluBackwardOptions {
  /** [..., F] */
  readonly inputGradient: Tensor;
  /** `[..., H]`: the gradient of the output of the layer that follows the GELU. */
  readonly outputGradient: Tensor;
  /** `[H, F]`: the weight of the layer that follows the GELU. */
  readonly weight: Tensor;
  /** [..., F] */
  readonly preactivation: Tensor;
  readonly kind: GeluKind;
}

/**
 * inputGradient = (outputGradient @ weight) * gelu'(preactivation). If the device's matmuls support it, a
 * single pass over memory computes this.
 */
export const linearGeluBackward = returningOperation<LinearGeluBackwardOptions, 'inputGradient'>(
  'linearGeluBackward',
  { inputGradient: ({ preactivation }) => like(preactivation) },
  (options) => {
    const { inputGradient, outputGradient, weight, preactivation, kind } = options;
    const tensors = { inputGradient, outputGradient, weight, preactivation };
    runOperation('linear_gelu_backward', { ...tensors, erf: isErf(kind) });
  },
);

export interface LinearResidualForwardOptions {
  /** [S, B, O]. Must not share memory with `residual`. */
  readonly output: Tensor;
  /** [S, B, O] */
  readonly residual: Tensor;
  /** [S, B, I] */
  readonly input: Tensor;
  /** [O, I] */
  readonly weight: Tensor;
  /** [O] */
  readonly bias?: Tensor | undefined;
}

/**
 * output = residual + input @ weight^T + bias. If the device's matmuls support it, a single pass over memory
 * computes this.
 */
export const linearResidualForward = returningOperation<LinearResidualForwardOptions, 'output'>(
  'linearResidualForward',
  { output: ({ residual }) => like(residual) },
  (options) => {
    const { output, residual, input, weight, bias } = options;
    runOperation('linear_residual_forward', { output, residual, input, weight, bias });
  },
);

export interface LinearWeightGradientOptions {
  /** [O, I] float32. The call adds to it. */
  readonly weightGradient: Tensor;
  /** [O] float32. The call adds to it. */
  readonly biasGradient: Tensor;
  /** [..., O] */
  readonly outputGradient: Tensor;
  /** [..., I] */
  readonly input: Tensor;
}

/**
 * weightGradient += outputGradient^T @ input; biasGradient += column sums of outputGradient. If the device's
 * matmuls support it, a single pass over memory computes both.
 */
export const linearWeightGradient = checkedOperation(
  'linearWeightGradient',
  (options: LinearWeightGradientOptions): void => {
    const { weightGradient, biasGradient, outputGradient, input } = options;
    runOperation('linear_weight_gradient', { weightGradient, biasGradient, outputGradient, input });
  },
);

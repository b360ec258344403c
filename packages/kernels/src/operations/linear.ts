import { checkedOperation } from '../checked-operation.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor, TensorOptions } from '../tensor.js';
import type { GeluKind } from './bias-gelu.js';
import { isErf } from './is-erf.js';

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
 * preactivation = input weight^T + bias; output = gelu(preactivation): one pass where the device's matmuls
 * can.
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
  /** `[..., H]`: of the layer behind the GELU. */
  readonly outputGradient: Tensor;
  /** `[H, F]`: of the layer behind the GELU. */
  readonly weight: Tensor;
  /** [..., F] */
  readonly preactivation: Tensor;
  readonly kind: GeluKind;
}

/**
 * inputGradient = (outputGradient weight) * gelu'(preactivation): one pass where the device's matmuls can.
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
  /** [S, B, O], in other memory than `residual`. */
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

/** output = residual + input weight^T + bias: one pass where the device's matmuls can. */
export const linearResidualForward = returningOperation<LinearResidualForwardOptions, 'output'>(
  'linearResidualForward',
  { output: ({ residual }) => like(residual) },
  (options) => {
    const { output, residual, input, weight, bias } = options;
    runOperation('linear_residual_forward', { output, residual, input, weight, bias });
  },
);

export interface LinearWeightGradientOptions {
  /** [O, I] float32, added to. */
  readonly weightGradient: Tensor;
  /** [O] float32, added to. */
  readonly biasGradient: Tensor;
  /** [..., O] */
  readonly outputGradient: Tensor;
  /** [..., I] */
  readonly input: Tensor;
}

/**
 * weightGradient += outputGradient^T input; biasGradient += its column sums: one pass where the device's
 * matmuls can.
 */
export const linearWeightGradient = checkedOperation(
  'linearWeightGradient',
  (options: LinearWeightGradientOptions): void => {
    const { weightGradient, biasGradient, outputGradient, input } = options;
    runOperation('linear_weight_gradient', { weightGradient, biasGradient, outputGradient, input });
  },
);

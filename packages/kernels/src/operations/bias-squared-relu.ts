import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface BiasSquaredReluForwardOptions {
  /** [..., F] */
  readonly output: Tensor;
  /** [..., F] */
  readonly input: Tensor;
  /** [F] */
  readonly bias?: Tensor | undefined;
}

/**
 * output = max(input + bias, 0)^2 (Primer, So et al. 2021).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const biasSquaredReluForward = returningOperation<BiasSquaredReluForwardOptions, 'output'>(
  'biasSquaredReluForward',
  { output: ({ input }) => like(input) },
  ({ output, input, bias }) => {
    runOperation('bias_squared_relu_forward', { output, input, bias });
  },
);

export interface BiasSquaredReluBackwardOptions {
  /** [..., F]; its column sum is the bias gradient. May be the memory of `outputGradient`. */
  readonly inputGradient: Tensor;
  readonly outputGradient: Tensor;
  /** The input of the forward call. */
  readonly input: Tensor;
  readonly bias?: Tensor | undefined;
}

/**
 * inputGradient = outputGradient * 2 max(input + bias, 0).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const biasSquaredReluBackward = returningOperation<BiasSquaredReluBackwardOptions, 'inputGradient'>(
  'biasSquaredReluBackward',
  { inputGradient: ({ input }) => like(input) },
  ({ inputGradient, outputGradient, input, bias }) => {
    runOperation('bias_squared_relu_backward', { inputGradient, outputGradient, input, bias });
  },
);

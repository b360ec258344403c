import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface BiasSwigluForwardOptions {
  /** [..., F] */
  readonly output: Tensor;
  /** `[..., 2F]`: F gates, then F values, of one matmul. */
  readonly input: Tensor;
  /** [2F] */
  readonly bias?: Tensor | undefined;
}

/**
 * output = silu(gate) * up with [gate, up] = input + bias and silu(x) = x / (1 + e^-x) (Shazeer 2020).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const biasSwigluForward = returningOperation<BiasSwigluForwardOptions, 'output'>(
  'biasSwigluForward',
  { output: ({ input }) => like(input, [...input.shape.slice(0, -1), input.dim(-1) / 2]) },
  ({ output, input, bias }) => {
    runOperation('bias_swiglu_forward', { output, input, bias });
  },
);

export interface BiasSwigluBackwardOptions {
  /** `[..., 2F]`; its column sum is the bias gradient. */
  readonly inputGradient: Tensor;
  /** [..., F] */
  readonly outputGradient: Tensor;
  /** The input of the forward call. */
  readonly input: Tensor;
  readonly bias?: Tensor | undefined;
}

/**
 * inputGradient = [outputGradient * up * silu'(gate), outputGradient * silu(gate)].
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const biasSwigluBackward = returningOperation<BiasSwigluBackwardOptions, 'inputGradient'>(
  'biasSwigluBackward',
  { inputGradient: ({ input }) => like(input) },
  ({ inputGradient, outputGradient, input, bias }) => {
    runOperation('bias_swiglu_backward', { inputGradient, outputGradient, input, bias });
  },
);

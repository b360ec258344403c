import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface RowGateForwardOptions {
  /** [..., H] */
  readonly output: Tensor;
  /** [..., H] */
  readonly input: Tensor;
  /** float32 [rows] (float64 over float64) */
  readonly logits: Tensor;
}

/**
 * output = sigmoid(logit of the row) * input: the gate of the shared experts of Qwen2-MoE.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const rowGateForward = returningOperation<RowGateForwardOptions, 'output'>(
  'rowGateForward',
  { output: ({ input }) => like(input) },
  ({ output, input, logits }) => {
    runOperation('row_gate_forward', { output, input, logits });
  },
);

export interface RowGateBackwardOptions {
  /** [..., H] */
  readonly inputGradient: Tensor;
  /** [rows] */
  readonly logitsGradient: Tensor;
  /** [..., H] */
  readonly outputGradient: Tensor;
  readonly input: Tensor;
  readonly logits: Tensor;
}

/**
 * inputGradient = sigmoid(logit) * outputGradient; logitsGradient = sigmoid'(logit) times the sum over the
 * row of outputGradient * input.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const rowGateBackward = returningOperation<RowGateBackwardOptions, 'inputGradient' | 'logitsGradient'>(
  'rowGateBackward',
  { inputGradient: ({ input }) => like(input), logitsGradient: ({ logits }) => like(logits) },
  ({ inputGradient, logitsGradient, outputGradient, input, logits }) => {
    runOperation('row_gate_backward', { inputGradient, logitsGradient, outputGradient, input, logits });
  },
);

import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface TanhForwardOptions {
  readonly output: Tensor;
  readonly input: Tensor;
}

/** output = tanh(input), of one shape and floating dtype. */
export const tanhForward = returningOperation<TanhForwardOptions, 'output'>(
  'tanhForward',
  { output: ({ input }) => like(input) },
  ({ output, input }) => {
    runOperation('tanh_forward', { output, input });
  },
);

export interface TanhBackwardOptions {
  /** May be the memory of `outputGradient`. */
  readonly inputGradient: Tensor;
  readonly outputGradient: Tensor;
  /** The output of the forward call. */
  readonly output: Tensor;
}

/** inputGradient = outputGradient * (1 - output^2) */
export const tanhBackward = returningOperation<TanhBackwardOptions, 'inputGradient'>(
  'tanhBackward',
  { inputGradient: ({ output }) => like(output) },
  ({ inputGradient, outputGradient, output }) => {
    runOperation('tanh_backward', { inputGradient, outputGradient, output });
  },
);

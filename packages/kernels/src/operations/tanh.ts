import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/** output = tanh(input), of one shape and floating dtype. */
export const tanhForward = checkedOperation(
  'tanhForward',
  ({ output, input }: { readonly output: Tensor; readonly input: Tensor }): void => {
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
export const tanhBackward = checkedOperation(
  'tanhBackward',
  ({ inputGradient, outputGradient, output }: TanhBackwardOptions): void => {
    runOperation('tanh_backward', { inputGradient, outputGradient, output });
  },
);

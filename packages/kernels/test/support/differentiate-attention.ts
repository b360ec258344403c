import {
  type AttentionBackwardOptions,
  attentionBackward,
  attentionRowSums,
  type Tensor,
} from '../../src/index.js';

/** `attentionBackward` with the output instead of its row sums. */
export interface DifferentiateAttentionOptions extends Omit<AttentionBackwardOptions, 'rowSums'> {
  /** [S, B, A, D], packed [T, A, D] */
  readonly output: Tensor;
}

export function differentiateAttention({ output, ...options }: DifferentiateAttentionOptions): void {
  using rowSums = attentionRowSums({ output, outputGradient: options.outputGradient });
  attentionBackward({ ...options, rowSums });
}

import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';
import { isErf } from './is-erf.js';

/** `tanh`: the approximation of GPT-2; `erf`: the exact form of BERT. */
export type GeluKind = 'tanh' | 'erf';

export interface BiasGeluForwardOptions {
  /** [..., F] */
  readonly output: Tensor;
  /** [..., F] */
  readonly input: Tensor;
  /** [F] */
  readonly bias?: Tensor | undefined;
  readonly kind?: GeluKind;
}

/** output = gelu(input + bias): Hendrycks and Gimpel 2016; the fusion is Megatron-LM's. */
export const biasGeluForward = returningOperation<BiasGeluForwardOptions, 'output'>(
  'biasGeluForward',
  { output: ({ input }) => like(input) },
  ({ output, input, bias, kind = 'tanh' }) => {
    runOperation('bias_gelu_forward', { output, input, bias, erf: isErf(kind) });
  },
);

export interface BiasGeluBackwardOptions {
  /** [..., F]; its column sum is the bias gradient. May be the memory of `outputGradient`. */
  readonly inputGradient: Tensor;
  readonly outputGradient: Tensor;
  /** The input of the forward call. */
  readonly input: Tensor;
  readonly bias?: Tensor | undefined;
  readonly kind?: GeluKind;
}

/** inputGradient = outputGradient * gelu'(input + bias) */
export const biasGeluBackward = returningOperation<BiasGeluBackwardOptions, 'inputGradient'>(
  'biasGeluBackward',
  { inputGradient: ({ input }) => like(input) },
  (options) => {
    const { inputGradient, outputGradient, input, bias, kind = 'tanh' } = options;
    runOperation('bias_gelu_backward', { inputGradient, outputGradient, input, bias, erf: isErf(kind) });
  },
);

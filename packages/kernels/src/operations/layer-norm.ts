import { checkedOperation } from '../checked-operation.js';
import { like, returningOperation, statisticsOf } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface LayerNormForwardOptions {
  /** [..., H] */
  readonly output: Tensor;
  /** [rows] float32, kept for backward. */
  readonly mean: Tensor;
  /** [rows] float32: 1 / sqrt(variance + epsilon), kept for backward. */
  readonly rstd: Tensor;
  /** [..., H] */
  readonly input: Tensor;
  /** [H] */
  readonly weight: Tensor;
  /** [H] */
  readonly bias: Tensor;
  readonly epsilon: number;
}

/** output = (input - mean) * rstd * weight + bias over the last dimension (Ba, Kiros and Hinton 2016). */
export const layerNormForward = returningOperation<LayerNormForwardOptions, 'output' | 'mean' | 'rstd'>(
  'layerNormForward',
  {
    output: ({ input }) => like(input),
    mean: ({ input }) => statisticsOf(input, [input.size / input.dim(-1)]),
    rstd: ({ input }) => statisticsOf(input, [input.size / input.dim(-1)]),
  },
  (options) => {
    const { output, mean, rstd, input, weight, bias, epsilon } = options;
    runOperation('layer_norm_forward', { output, mean, rstd, input, weight, bias, epsilon });
  },
);

export interface LayerNormBackwardOptions {
  /** [..., H]; left out, only the weight part is computed. May be the memory of `outputGradient`. */
  readonly inputGradient?: Tensor | undefined;
  /** [H] float32, added to; with `biasGradient` or not at all. */
  readonly weightGradient?: Tensor | undefined;
  /** [H] float32, added to. */
  readonly biasGradient?: Tensor | undefined;
  readonly outputGradient: Tensor;
  /** Input, mean and rstd of the forward call. */
  readonly input: Tensor;
  readonly mean: Tensor;
  readonly rstd: Tensor;
  readonly weight: Tensor;
  /** `[..., H]`: the gradient that reaches the input along the residual path, added to `inputGradient`. */
  readonly addend?: Tensor | undefined;
}

/**
 * The gradients of layer norm; those left out cost nothing, so that backward splits into input and weight
 * parts.
 */
export const layerNormBackward = checkedOperation(
  'layerNormBackward',
  (options: LayerNormBackwardOptions): void => {
    const { inputGradient, weightGradient, biasGradient, outputGradient, input, mean, rstd, weight, addend } =
      options;
    runOperation('layer_norm_backward', {
      inputGradient,
      weightGradient,
      biasGradient,
      outputGradient,
      input,
      mean,
      rstd,
      weight,
      addend,
    });
  },
);

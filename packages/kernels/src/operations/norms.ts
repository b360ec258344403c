import { checkedOperation } from '../checked-operation.js';
import { declareStatistics, like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface LayerNormForwardOptions {
  /** [..., H] */
  readonly output: Tensor;
  /** [rows] float32, kept for backward. */
  readonly mean: Tensor;
  /** [rows] float32: 1 / sqrt(variance + epsilon), which the backward pass needs. */
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
    mean: ({ input }) => declareStatistics(input, [input.size / input.dim(-1)]),
    rstd: ({ input }) => declareStatistics(input, [input.size / input.dim(-1)]),
  },
  (options) => {
    const { output, mean, rstd, input, weight, bias, epsilon } = options;
    runOperation('layer_norm_forward', { output, mean, rstd, input, weight, bias, epsilon });
  },
);

export interface LayerNormBackwardOptions {
  /**
   * [..., H]. If it is omitted, only the parameters' gradients are computed. May be the same memory as
   * `outputGradient`.
   */
  readonly inputGradient?: Tensor | undefined;
  /**
   * [H] float32. The call adds to it. The caller must give both `weightGradient` and `biasGradient`, or
   * neither.
   */
  readonly weightGradient?: Tensor | undefined;
  /** [H] float32. The call adds to it. */
  readonly biasGradient?: Tensor | undefined;
  readonly outputGradient: Tensor;
  /** The forward call's input. `mean` and `rstd` are outputs of the same call. */
  readonly input: Tensor;
  readonly mean: Tensor;
  readonly rstd: Tensor;
  readonly weight: Tensor;
  /** `[..., H]`: the gradient of the residual path, which is added to `inputGradient`. */
  readonly addend?: Tensor | undefined;
}

/**
 * Computes the gradients of layer norm. Omitted gradients cost nothing, so that the backward pass can be
 * split into separate calls for the input's and the parameters' gradients.
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

export interface RmsNormForwardOptions {
  /** [..., H]; may be a strided view. */
  readonly output: Tensor;
  /** [rows] float32: 1 / sqrt(mean of input^2 + epsilon), which the backward pass needs. */
  readonly rstd: Tensor;
  /** [..., H]; may be a strided view. */
  readonly input: Tensor;
  /** [H] */
  readonly weight: Tensor;
  readonly epsilon: number;
  /**
   * [rows] float32: the sums of squares over complete rows, if `input` contains only some of their features
   * (the sum of `rowProducts` over all shards). Default: the sums over `input`.
   */
  readonly squares?: Tensor | undefined;
  /** The number of features in a complete row, if `squares` is given. Default: H. */
  readonly width?: number | undefined;
}

/**
 * output = input * rstd * weight over the last dimension (Zhang and Sennrich 2019), computed in float32. If
 * the tensors are views from `splitProjection`, the operation normalizes the queries or keys of every head,
 * and H is the head size.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, and for a strided
 *   view whose last dimension is not contiguous
 */
export const rmsNormForward = returningOperation<RmsNormForwardOptions, 'output' | 'rstd'>(
  'rmsNormForward',
  {
    output: ({ input }) => like(input),
    rstd: ({ input }) => declareStatistics(input, [input.size / input.dim(-1)]),
  },
  (options) => {
    const { output, rstd, input, weight, epsilon, squares, width = input.dim(-1) } = options;
    runOperation('rms_norm_forward', { output, rstd, input, weight, squares, epsilon, width });
  },
);

export interface RmsNormBackwardOptions {
  /**
   * [..., H]. If it is omitted, only the weight gradient is computed. May be the same memory as
   * `outputGradient`.
   */
  readonly inputGradient?: Tensor | undefined;
  /** [H] float32. The call adds to it. If it is omitted, only the input gradient is computed. */
  readonly weightGradient?: Tensor | undefined;
  readonly outputGradient: Tensor;
  /** Input and rstd of the forward call. */
  readonly input: Tensor;
  readonly rstd: Tensor;
  readonly weight: Tensor;
  /** `[..., H]`: the gradient of the residual path, which is added to `inputGradient`. */
  readonly addend?: Tensor | undefined;
  /**
   * [rows] float32: the sums of outputGradient * weight * input over complete rows, if `input` contains only
   * some of their features. Default: the sums over `input`.
   */
  readonly products?: Tensor | undefined;
  /** The number of features in a complete row, if `products` is given. Default: H. */
  readonly width?: number | undefined;
}

/**
 * Computes the gradients of RMSNorm. Omitted gradients cost nothing, so that the backward pass can be split
 * into separate calls for the input's and the weight's gradient. All tensors of shape [..., H] may be
 * strided views with a contiguous last dimension.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_ARGUMENT` if
 *   both gradients are omitted
 */
export const rmsNormBackward = checkedOperation(
  'rmsNormBackward',
  (options: RmsNormBackwardOptions): void => {
    const { inputGradient, weightGradient, outputGradient, input, rstd, weight, addend } = options;
    const { products, width = input.dim(-1) } = options;
    const gradients = { inputGradient, weightGradient };
    const operands = { outputGradient, input, rstd, weight, addend, products, width };
    runOperation('rms_norm_backward', { ...gradients, ...operands });
  },
);

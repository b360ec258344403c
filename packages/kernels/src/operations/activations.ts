import { UsageError } from '@mtl/errors';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/** `tanh`: GPT-2's approximation; `erf`: BERT's exact form. */
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

/** output = gelu(input + bias) (Hendrycks and Gimpel 2016). Megatron-LM has the same fused operation. */
export const biasGeluForward = returningOperation<BiasGeluForwardOptions, 'output'>(
  'biasGeluForward',
  { output: ({ input }) => like(input) },
  ({ output, input, bias, kind = 'tanh' }) => {
    runOperation('bias_gelu_forward', { output, input, bias, erf: isErf(kind) });
  },
);

export interface BiasGeluBackwardOptions {
  /** [..., F]. Its column sum is the bias gradient. May be the same memory as `outputGradient`. */
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

/**
 * Returns true if `kind` is the exact GELU.
 *
 * @throws UsageError `MTL_ARGUMENT` for an unknown kind
 */
export function isErf(kind: string): boolean {
  if (kind === 'erf' || kind === 'tanh') return kind === 'erf';
  throw new UsageError('MTL_ARGUMENT', `GELU of kind ${String(kind)}`, { expected: "'tanh' or 'erf'" });
}

export interface BiasSwigluForwardOptions {
  /** [..., F] */
  readonly output: Tensor;
  /** `[..., 2F]`: F gates followed by F values, both computed by one matmul. */
  readonly input: Tensor;
  /** [2F] */
  readonly bias?: Tensor | undefined;
}

/**
 * output = silu(gate) * up with [gate, up] = input + bias and silu(x) = x / (1 + e^-x) (Shazeer 2020).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const biasSwigluForward = returningOperation<BiasSwigluForwardOptions, 'output'>(
  'biasSwigluForward',
  { output: ({ input }) => like(input, [...input.shape.slice(0, -1), input.dim(-1) / 2]) },
  ({ output, input, bias }) => {
    runOperation('bias_swiglu_forward', { output, input, bias });
  },
);

export interface BiasSwigluBackwardOptions {
  /** `[..., 2F]`. Its column sum is the bias gradient. */
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
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const biasSwigluBackward = returningOperation<BiasSwigluBackwardOptions, 'inputGradient'>(
  'biasSwigluBackward',
  { inputGradient: ({ input }) => like(input) },
  ({ inputGradient, outputGradient, input, bias }) => {
    runOperation('bias_swiglu_backward', { inputGradient, outputGradient, input, bias });
  },
);

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
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const biasSquaredReluForward = returningOperation<BiasSquaredReluForwardOptions, 'output'>(
  'biasSquaredReluForward',
  { output: ({ input }) => like(input) },
  ({ output, input, bias }) => {
    runOperation('bias_squared_relu_forward', { output, input, bias });
  },
);

export interface BiasSquaredReluBackwardOptions {
  /** [..., F]. Its column sum is the bias gradient. May be the same memory as `outputGradient`. */
  readonly inputGradient: Tensor;
  readonly outputGradient: Tensor;
  /** The input of the forward call. */
  readonly input: Tensor;
  readonly bias?: Tensor | undefined;
}

/**
 * inputGradient = outputGradient * 2 * max(input + bias, 0).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const biasSquaredReluBackward = returningOperation<BiasSquaredReluBackwardOptions, 'inputGradient'>(
  'biasSquaredReluBackward',
  { inputGradient: ({ input }) => like(input) },
  ({ inputGradient, outputGradient, input, bias }) => {
    runOperation('bias_squared_relu_backward', { inputGradient, outputGradient, input, bias });
  },
);

export interface TanhForwardOptions {
  readonly output: Tensor;
  readonly input: Tensor;
}

/** output = tanh(input). Both have the same shape and floating-point dtype. */
export const tanhForward = returningOperation<TanhForwardOptions, 'output'>(
  'tanhForward',
  { output: ({ input }) => like(input) },
  ({ output, input }) => {
    runOperation('tanh_forward', { output, input });
  },
);

export interface TanhBackwardOptions {
  /** The gradient with respect to the input. May be the same memory as `outputGradient`. */
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

import { like, returningOperation } from '../returning-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * A dropout mask that depends only on global coordinates. Philox generates its random numbers: the key is
 * made from the seed and the site, and the counter from sample, position and column (or head, query and key).
 * The mask is thus the same for any parallel layout and any split into micro-batches.
 */
export interface DropoutMask {
  /**
   * The probability that an element is dropped, in [0, 1). Kept elements are multiplied by 1 / (1 -
   * probability).
   */
  readonly probability: number;
  /** 64 bits derived from the seed and the site's logical name, as two unsigned 32-bit halves. */
  readonly key: readonly [low: number, high: number];
  /**
   * int64 [B]: the global sample indices. If `positions` is [S, B], `samples` must have the same shape, with
   * an index for every row.
   */
  readonly samples: Tensor;
  /**
   * int32 [S, B]: the position of every row in its sample. Default: the row's index in S. Required if samples
   * are packed or the sequence is sharded.
   */
  readonly positions?: Tensor | undefined;
  /** The global index of the first feature, if the tensors contain a slice of the features. Default: 0. */
  readonly firstColumn?: number | undefined;
}

function maskOperands(dropout: DropoutMask | undefined): Operands {
  const [keyLow, keyHigh] = dropout?.key ?? [0, 0];
  const { samples, positions, probability = 0, firstColumn = 0 } = dropout ?? {};
  return { samples, positions, probability, keyLow, keyHigh, firstColumn };
}

export interface BiasDropoutResidualForwardOptions {
  /** [S, B, H]. May be the same memory as `input` or `residual`. */
  readonly output: Tensor;
  readonly input: Tensor;
  /** [H] */
  readonly bias?: Tensor | undefined;
  /** [S, B, H] */
  readonly residual?: Tensor | undefined;
  readonly dropout?: DropoutMask | undefined;
}

/** output = residual + dropout(input + bias), the fusion described by Narayanan et al. 2021, section 4.2. */
export const biasDropoutResidualForward = returningOperation<BiasDropoutResidualForwardOptions, 'output'>(
  'biasDropoutResidualForward',
  { output: ({ input }) => like(input) },
  (options) => {
    const { output, input, bias, residual, dropout } = options;
    runOperation('bias_dropout_residual_forward', {
      output,
      input,
      bias,
      residual,
      ...maskOperands(dropout),
    });
  },
);

export interface BiasDropoutResidualBackwardOptions {
  /** [S, B, H]. Its column sum is the bias gradient. */
  readonly inputGradient: Tensor;
  /** [S, B, H]; also the gradient of the residual. */
  readonly outputGradient: Tensor;
  readonly dropout: DropoutMask;
}

/**
 * inputGradient = outputGradient with the dropout mask applied. Without dropout, both are the same tensor,
 * and no call is needed.
 */
export const biasDropoutResidualBackward = returningOperation<
  BiasDropoutResidualBackwardOptions,
  'inputGradient'
>(
  'biasDropoutResidualBackward',
  { inputGradient: ({ outputGradient }) => like(outputGradient) },
  (options) => {
    const { inputGradient, outputGradient, dropout } = options;
    runOperation('bias_dropout_residual_backward', {
      inputGradient,
      outputGradient,
      ...maskOperands(dropout),
    });
  },
);

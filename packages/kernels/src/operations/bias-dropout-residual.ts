import { like, returningOperation } from '../returning-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * A dropout mask that depends only on global coordinates. Its random numbers come from Philox. The key is
 * made from seed and site, and the counter from sample, position and column (or head, query and key). The
 * mask is the same for any layout and any split into micro-batches.
 */
export interface DropoutMask {
  /** Probability of being dropped, in [0, 1); kept elements are scaled by 1 / (1 - probability). */
  readonly probability: number;
  /** 64 bits from the seed and the logical name of the site, as two unsigned 32-bit halves. */
  readonly key: readonly [low: number, high: number];
  /** int64 [B]: global sample numbers. If `positions` is [S, B], there is a number for every row. */
  readonly samples: Tensor;
  /**
   * int32 [S, B]: the position of every row in its sample. Default: the row's index in S. Required if samples
   * are packed or the sequence is sharded.
   */
  readonly positions?: Tensor | undefined;
  /** The number of the first feature, if the tensors hold a slice of the features. Default: 0. */
  readonly firstColumn?: number | undefined;
}

function maskOperands(dropout: DropoutMask | undefined): Operands {
  const [keyLow, keyHigh] = dropout?.key ?? [0, 0];
  const { samples, positions, probability = 0, firstColumn = 0 } = dropout ?? {};
  return { samples, positions, probability, keyLow, keyHigh, firstColumn };
}

export interface BiasDropoutResidualForwardOptions {
  /** [S, B, H]; may be the memory of `input` or `residual`. */
  readonly output: Tensor;
  readonly input: Tensor;
  /** [H] */
  readonly bias?: Tensor | undefined;
  /** [S, B, H] */
  readonly residual?: Tensor | undefined;
  readonly dropout?: DropoutMask | undefined;
}

/** output = residual + dropout(input + bias): the fusion of Narayanan et al. 2021, section 4.2. */
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
 * inputGradient = outputGradient with the dropout mask applied. Without dropout both are the same tensor, and
 * no call is needed.
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

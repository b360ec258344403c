import { checkedOperation } from '../checked-operation.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface MuonMomentumOptions {
  /** [N] float32, updated: the exponential average of gradients. */
  readonly momentum: Tensor;
  /** [N] float32: the gradient. The call replaces it with the direction that is then orthogonalised. */
  readonly gradient: Tensor;
  /** [5] float32 from `adamwScalars`. A skipped step changes nothing. */
  readonly scalars: Tensor;
  /** The weight of the previous average in the new average. */
  readonly decay: number;
  /**
   * True to use the gradient, averaged with the new momentum, as the direction; false to use the new
   * momentum.
   */
  readonly nesterov: boolean;
}

/**
 * Computes the first, elementwise part of Muon (Jordan et al. 2024): the average of gradients, and the
 * direction.
 */
export const muonMomentum = checkedOperation('muonMomentum', (options: MuonMomentumOptions): void => {
  const { momentum, gradient, scalars, decay, nesterov } = options;
  runOperation('muon_momentum', { momentum, gradient, scalars, decay, nesterov });
});

export interface MuonNormalizeOptions {
  /** float32 or bfloat16, with the same size as `input`. */
  readonly output: Tensor;
  /** float32 */
  readonly input: Tensor;
  /** [1] float64: the sum of the squares of `input`. */
  readonly squares: Tensor;
  /** The lower limit of the norm: a smaller norm is replaced by `epsilon`. */
  readonly epsilon: number;
}

/**
 * output = input / max(sqrt(squares), epsilon). The result has Frobenius norm 1, as Newton-Schulz requires of
 * its first matrix.
 */
export const muonNormalize = returningOperation<MuonNormalizeOptions, 'output'>(
  'muonNormalize',
  { output: ({ input }) => like(input) },
  (options) => {
    const { output, input, squares, epsilon } = options;
    runOperation('muon_normalize', { output, input, squares, epsilon });
  },
);

export interface MuonPolynomialOptions {
  /** [M, M], with the dtype of `gram`. May be `gram` itself. */
  readonly output: Tensor;
  /** [M, M] float32 or bfloat16: the Gram matrix A, which contains the dot products of all pairs of rows. */
  readonly gram: Tensor;
  /** [M, M] float32: A A */
  readonly square: Tensor;
  /** The coefficient of the identity. */
  readonly constant: number;
  readonly linear: number;
  readonly quadratic: number;
}

/** output = constant * I + linear * A + quadratic * A @ A, which is the factor in a Newton-Schulz step. */
export const muonPolynomial = returningOperation<MuonPolynomialOptions, 'output'>(
  'muonPolynomial',
  { output: ({ gram }) => like(gram) },
  (options) => {
    const { output, gram, square, constant, linear, quadratic } = options;
    runOperation('muon_polynomial', { output, gram, square, constant, linear, quadratic });
  },
);

export interface MuonUpdateOptions {
  /** [N] float32, updated. */
  readonly parameter: Tensor;
  /** [N] bfloat16 or float16: receives the updated parameter, rounded. */
  readonly modelParameter?: Tensor | undefined;
  /** [N] float32 */
  readonly direction: Tensor;
  /** [5] float32 from `adamwScalars`. A skipped step changes no parameter. */
  readonly scalars: Tensor;
  /** The decoupled weight decay, which is multiplied by the learning rate. */
  readonly weightDecay: number;
  /** True to set the direction to zero in the same pass over memory, even in a skipped step. */
  readonly clearDirection?: boolean;
}

/** parameter -= learning rate * (weightDecay * parameter + direction). */
export const muonUpdate = checkedOperation('muonUpdate', (options: MuonUpdateOptions): void => {
  const { parameter, modelParameter, direction, scalars, weightDecay, clearDirection = false } = options;
  runOperation('muon_update', { parameter, modelParameter, direction, scalars, weightDecay, clearDirection });
});

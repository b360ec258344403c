import { declareStatistics, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface ReductionOptions {
  readonly output: Tensor;
  readonly input: Tensor;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/** output [N] float32 = the sum over the rows of input [..., N]. This is the gradient of a bias. */
export const sumRows = returningOperation<ReductionOptions, 'output'>(
  'sumRows',
  { output: ({ input }) => declareStatistics(input, [input.dim(-1)]) },
  ({ output, input, accumulate = false }) => {
    runOperation('sum_rows', { output, input, accumulate });
  },
);

/** output [1] float64 = the sum of the squares of all elements, in a fixed order. Used for gradient norms. */
export const sumOfSquares = returningOperation<ReductionOptions, 'output'>(
  'sumOfSquares',
  { output: ({ input: { device } }) => ({ shape: [1], dtype: 'float64', device }) },
  ({ output, input, accumulate = false }) => {
    runOperation('sum_of_squares', { output, input, accumulate });
  },
);

export interface WeightedSumOptions {
  /** [1] float64 */
  readonly output: Tensor;
  /** float32, of any shape */
  readonly values: Tensor;
  /** float32, of the size of `values` */
  readonly weights: Tensor;
}

/**
 * output = the sum of values * weights, in float64 and in a fixed order. This computes the loss of a
 * micro-batch without a copy to the host.
 */
export const weightedSum = returningOperation<WeightedSumOptions, 'output'>(
  'weightedSum',
  { output: ({ values: { device } }) => ({ shape: [1], dtype: 'float64', device }) },
  ({ output, values, weights }) => {
    runOperation('weighted_sum', { output, values, weights });
  },
);

export interface RowProductsOptions {
  /** [rows] float32 (float64 over float64) */
  readonly output: Tensor;
  /** [..., H] */
  readonly left: Tensor;
  /** [..., H] */
  readonly right: Tensor;
  /** [H]. Default: ones. */
  readonly weight?: Tensor | undefined;
}

/**
 * output = the sum over the last dimension of left * right * weight. For a norm whose features are sharded,
 * the processes add up these sums (see `squares` and `products` of RMSNorm).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other
 */
export const rowProducts = returningOperation<RowProductsOptions, 'output'>(
  'rowProducts',
  { output: ({ left }) => declareStatistics(left, [left.size / left.dim(-1)]) },
  ({ output, left, right, weight }) => {
    runOperation('row_products', { output, left, right, weight });
  },
);

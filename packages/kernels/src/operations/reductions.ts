import { returningOperation, statisticsOf } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface ReductionOptions {
  readonly output: Tensor;
  readonly input: Tensor;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/** output [N] float32 = sum over rows of input [..., N]: the gradient of a bias. */
export const sumRows = returningOperation<ReductionOptions, 'output'>(
  'sumRows',
  { output: ({ input }) => statisticsOf(input, [input.dim(-1)]) },
  ({ output, input, accumulate = false }) => {
    runOperation('sum_rows', { output, input, accumulate });
  },
);

/** output [1] float64 = sum of the squares of all elements, in a fixed order: gradient norms. */
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
  /** float32, as many elements */
  readonly weights: Tensor;
}

/**
 * output = sum of values * weights, in float64 and in a fixed order: the loss of a micro-batch, without a
 * copy to the host.
 */
export const weightedSum = returningOperation<WeightedSumOptions, 'output'>(
  'weightedSum',
  { output: ({ values: { device } }) => ({ shape: [1], dtype: 'float64', device }) },
  ({ output, values, weights }) => {
    runOperation('weighted_sum', { output, values, weights });
  },
);

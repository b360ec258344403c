import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface ReductionOptions {
  readonly output: Tensor;
  readonly input: Tensor;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/** output [N] float32 = sum over rows of input [..., N]: the gradient of a bias. */
export const sumRows = checkedOperation(
  'sumRows',
  ({ output, input, accumulate = false }: ReductionOptions): void => {
    runOperation('sum_rows', { output, input, accumulate });
  },
);

/** output [1] float64 = sum of the squares of all elements, in a fixed order: gradient norms. */
export const sumOfSquares = checkedOperation(
  'sumOfSquares',
  ({ output, input, accumulate = false }: ReductionOptions): void => {
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
export const weightedSum = checkedOperation(
  'weightedSum',
  ({ output, values, weights }: WeightedSumOptions): void => {
    runOperation('weighted_sum', { output, values, weights });
  },
);

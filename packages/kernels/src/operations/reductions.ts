import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface ReductionOptions {
  readonly output: Tensor;
  readonly input: Tensor;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/** output [N] float32 = sum over rows of input [..., N]: the gradient of a bias. */
export function sumRows({ output, input, accumulate = false }: ReductionOptions): void {
  runOperation('sum_rows', [output, input], [accumulate]);
}

/** output [1] float64 = sum of the squares of all elements, in a fixed order: gradient norms. */
export function sumOfSquares({ output, input, accumulate = false }: ReductionOptions): void {
  runOperation('sum_of_squares', [output, input], [accumulate]);
}

import { like, returningOperation, statisticsOf } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface GroupedMatmulOptions {
  /** `[..., N]` of R rows */
  readonly output: Tensor;
  /** `[..., K]` of R rows, those of one group after those of another */
  readonly input: Tensor;
  /** `[G, N, K]` with `transposeWeights`, else `[G, K, N]` */
  readonly weights: Tensor;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
  readonly transposeWeights?: boolean;
}

/**
 * output[r] = input[r] op(weights[g]) for the rows r of group g; rows behind the last group become zeros. An
 * element has the same bits for any grouping of the rows and any number of threads. FLOPs are counted as if
 * all rows were in a group.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 */
export const groupedMatmul = returningOperation<GroupedMatmulOptions, 'output'>(
  'groupedMatmul',
  {
    output: ({ input, weights, transposeWeights = false }) =>
      like(input, [...input.shape.slice(0, -1), weights.dim(transposeWeights ? 1 : 2)]),
  },
  ({ output, input, weights, offsets, transposeWeights = false }) => {
    runOperation('grouped_matmul', { output, input, weights, offsets, transposeWeights });
  },
);

export interface GroupedWeightGradientOptions {
  /** `[G, N, K]` float32 */
  readonly weightGradient: Tensor;
  /** `[..., N]` of R rows */
  readonly outputGradient: Tensor;
  /** `[..., K]` of R rows */
  readonly input: Tensor;
  /** The offsets of the forward call. */
  readonly offsets: Tensor;
  /** Adds to `weightGradient`: that of a group without rows stays as it is, which else becomes zeros. */
  readonly accumulate?: boolean;
}

/**
 * weightGradient[g] = sum over the rows r of group g of outputGradient[r]^T input[r], in float32.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 */
export const groupedWeightGradient = returningOperation<GroupedWeightGradientOptions, 'weightGradient'>(
  'groupedWeightGradient',
  {
    weightGradient: ({ outputGradient, input, offsets }) =>
      statisticsOf(input, [offsets.size - 1, outputGradient.dim(-1), input.dim(-1)]),
  },
  ({ weightGradient, outputGradient, input, offsets, accumulate = false }) => {
    runOperation('grouped_weight_gradient', { weightGradient, outputGradient, input, offsets, accumulate });
  },
);

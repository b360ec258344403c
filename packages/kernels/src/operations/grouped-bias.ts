import { like, returningOperation, statisticsOf } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface GroupedSumRowsOptions {
  /** [G, N] float32 */
  readonly output: Tensor;
  /** `[..., N]` of R rows */
  readonly input: Tensor;
  /** `[R]` float32. Default: 1 for every row. */
  readonly weights?: Tensor | undefined;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
  /** Adds to `output` instead of overwriting it. */
  readonly accumulate?: boolean;
}

/**
 * output[g] = sum over the rows r of group g of weights[r] * input[r], in float32: the gradient of the
 * groups' biases.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 */
export const groupedSumRows = returningOperation<GroupedSumRowsOptions, 'output'>(
  'groupedSumRows',
  { output: ({ input, offsets }) => statisticsOf(input, [offsets.size - 1, input.dim(-1)]) },
  ({ output, input, weights, offsets, accumulate = false }) => {
    runOperation('grouped_sum_rows', { output, input, weights, offsets, accumulate });
  },
);

export interface GroupedBiasForwardOptions {
  /** `[..., N]`; may be the memory of `input`. */
  readonly output: Tensor;
  /** `[..., N]` of R rows */
  readonly input: Tensor;
  /** [G, N] */
  readonly bias: Tensor;
  /** `[R]` float32. Default: 1 for every row. */
  readonly probabilities?: Tensor | undefined;
  /**
   * `[G + 1]` int32, from 0, ascending: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive.
   */
  readonly offsets: Tensor;
}

/**
 * output[r] = input[r] + probabilities[r] * bias[g] for the rows r of group g; rows behind the last group
 * become zeros.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 */
export const groupedBiasForward = returningOperation<GroupedBiasForwardOptions, 'output'>(
  'groupedBiasForward',
  { output: ({ input }) => like(input) },
  ({ output, input, bias, probabilities, offsets }) => {
    runOperation('grouped_bias_forward', { output, input, bias, probabilities, offsets });
  },
);

export interface GroupedBiasBackwardOptions {
  /** `[R]` float32 */
  readonly probabilitiesGradient: Tensor;
  /** [..., N] */
  readonly outputGradient: Tensor;
  /** The operands of the forward call. */
  readonly bias: Tensor;
  readonly offsets: Tensor;
}

/**
 * probabilitiesGradient[r] = sum over N of outputGradient[r] * bias[g]. The gradient of the bias is that of
 * `groupedSumRows` with the probabilities as weights.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 */
export const groupedBiasBackward = returningOperation<GroupedBiasBackwardOptions, 'probabilitiesGradient'>(
  'groupedBiasBackward',
  {
    probabilitiesGradient: ({ outputGradient }) =>
      statisticsOf(outputGradient, [outputGradient.size / outputGradient.dim(-1)]),
  },
  ({ probabilitiesGradient, outputGradient, bias, offsets }) => {
    runOperation('grouped_bias_backward', { probabilitiesGradient, outputGradient, bias, offsets });
  },
);

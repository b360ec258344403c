import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface GroupByExpertOptions {
  /** `[E + 1]` int32: the rows of expert e are `offsets[e]` to `offsets[e + 1]`, exclusive. */
  readonly offsets: Tensor;
  /** `[T, k]` int32: the grouped row of each slot, or -1 if the slot was dropped */
  readonly positions: Tensor;
  /** `[T * k]` int32: the slot `t * k + slot` of each grouped row, -1 after the last row */
  readonly sources: Tensor;
  /** `[T, k]` int32: the expert of each slot, or -1 if the slot was dropped */
  readonly experts: Tensor;
}

/**
 * Sorts all slots by expert, which gives the rows of each expert. An expert's rows keep their order.
 *
 * @param options must contain `numExperts`, the number E, if the outputs are omitted
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for an
 *   invalid expert
 */
export const groupByExpert = returningOperation<
  GroupByExpertOptions,
  'offsets' | 'positions' | 'sources',
  { readonly numExperts: number }
>(
  'groupByExpert',
  {
    offsets: ({ experts, numExperts }) => like(experts, [numExperts + 1]),
    positions: ({ experts }) => like(experts),
    sources: ({ experts }) => like(experts, [experts.size]),
  },
  ({ offsets, positions, sources, experts }) => {
    runOperation('group_by_expert', { offsets, positions, sources, experts });
  },
);

export interface DropOverCapacityOptions {
  /** `[T, k]` int32: `experts`, with -1 in dropped slots */
  readonly output: Tensor;
  /** `[T, k]` int32, with -1 in slots that have already been dropped */
  readonly experts: Tensor;
  /** `[T, k]` float32 */
  readonly probabilities: Tensor;
  readonly numExperts: number;
  /** The most slots that an expert keeps. */
  readonly capacity: number;
  /**
   * True if an expert keeps the first rows. Default: it keeps the rows with the largest probabilities and, if
   * probabilities are equal, the first rows.
   */
  readonly byPosition?: boolean | undefined;
}

/**
 * Drops the slots that exceed their expert's capacity.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other,
 *   `MTL_INDEX` for an invalid expert
 */
export const dropOverCapacity = returningOperation<DropOverCapacityOptions, 'output'>(
  'dropOverCapacity',
  { output: ({ experts }) => like(experts) },
  (options) => {
    const { output, experts, probabilities, numExperts, capacity, byPosition = false } = options;
    runOperation('drop_over_capacity', {
      output,
      experts,
      probabilities,
      numExperts,
      capacity,
      byPosition,
    });
  },
);

export interface PermuteRowsOptions {
  /** `[..., H]` of R rows */
  readonly output: Tensor;
  /** `[..., H]` of T rows */
  readonly input: Tensor;
  /** `[R]` int32, from `groupByExpert`: the slot `t * topK + slot` of each row, or -1 */
  readonly sources: Tensor;
  readonly topK: number;
}

/**
 * `output[r] = input[sources[r] / topK]`, or zeros for a source of -1. In the result, the rows of each expert
 * are adjacent. This is the backward operation of `combineRows`.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other,
 *   `MTL_INDEX` for a source that is not a slot of a row
 */
export const permuteRows = returningOperation<PermuteRowsOptions, 'output'>(
  'permuteRows',
  { output: ({ input, sources }) => like(input, [sources.size, input.dim(-1)]) },
  ({ output, input, sources, topK }) => {
    runOperation('permute_rows', { output, input, sources, topK });
  },
);

export interface CombineRowsOptions {
  /** `[..., H]` of T rows */
  readonly output: Tensor;
  /** `[..., H]` of R rows */
  readonly rows: Tensor;
  /** `[T, k]` int32, from `groupByExpert`: the row of each slot, or -1 */
  readonly positions: Tensor;
}

/**
 * output[t] = sum over slots of rows[positions[t, slot]]; positions of -1 are omitted. The sum is in float32,
 * in the order of the slots. This is the backward operation of `permuteRows`.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for a
 *   position that is not a row
 */
export const combineRows = returningOperation<CombineRowsOptions, 'output'>(
  'combineRows',
  { output: ({ rows, positions }) => like(rows, [positions.dim(0), rows.dim(-1)]) },
  ({ output, rows, positions }) => {
    runOperation('combine_rows', { output, rows, positions });
  },
);

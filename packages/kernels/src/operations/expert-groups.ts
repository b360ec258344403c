import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface GroupByExpertOptions {
  /** `[E + 1]` int32: the rows of expert e are `offsets[e]` to `offsets[e + 1]`, exclusive. */
  readonly offsets: Tensor;
  /** `[T, k]` int32: the grouped row of each slot, -1 where it was dropped */
  readonly positions: Tensor;
  /** `[T k]` int32: the slot `t k + slot` of each grouped row, -1 behind the last */
  readonly sources: Tensor;
  /** `[T, k]` int32: the expert of each slot, or -1 for a slot that was dropped */
  readonly experts: Tensor;
}

/**
 * Where the rows of each expert are when all slots are sorted by expert. Rows of an expert keep their order.
 *
 * @param options `numExperts` where the outputs are left out: E
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for an expert that
 *   is none
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
  /** `[T, k]` int32: `experts`, and -1 in slots that are dropped */
  readonly output: Tensor;
  /** `[T, k]` int32, -1 in slots that were dropped before */
  readonly experts: Tensor;
  /** `[T, k]` float32 */
  readonly probabilities: Tensor;
  readonly numExperts: number;
  /** Slots that an expert keeps at most. */
  readonly capacity: number;
  /** Keep the first rows. Default: those of the largest probabilities, of equal ones the first. */
  readonly byPosition?: boolean | undefined;
}

/**
 * Drops the slots that their expert has no room for.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for an expert that is none
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

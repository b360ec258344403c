import { checkedOperation, groupByExpert as group } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface GroupByExpertOptions {
  /** `[T, k]` int32: the expert of each slot, or -1 for a slot that was dropped */
  readonly experts: Variable;
  /** E */
  readonly numExperts: number;
}

/** Which slot of which row is where, when slots are sorted by expert. */
export interface RowGrouping {
  /** `[T, k]` int32: the grouped row of each slot, -1 where it was dropped */
  readonly positions: Variable;
  /** `[R]` int32, R = T k: the slot `t k + slot` of each grouped row, -1 behind the last */
  readonly sources: Variable;
}

export interface ExpertGroups extends RowGrouping {
  /** `[E + 1]` int32: the rows of expert e are `offsets[e]` to `offsets[e + 1]`, exclusive. */
  readonly offsets: Variable;
}

/**
 * Where the rows of each expert are when all slots are sorted by expert; rows of an expert keep their order.
 * Nothing of it has a gradient.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for an expert that
 *   is none
 */
export const groupByExpert = checkedOperation(
  'groupByExpert',
  (tape: Tape, { experts, numExperts }: GroupByExpertOptions): ExpertGroups => {
    const { offsets, positions, sources } = group({ experts: experts.tensor, numExperts });
    return {
      offsets: tape.result(offsets, { requiresGradient: false }),
      positions: tape.result(positions, { requiresGradient: false }),
      sources: tape.result(sources, { requiresGradient: false }),
    };
  },
);

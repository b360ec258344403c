import { gatherRows as gatherOwnRows, type Tape, type Variable } from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';
import { isSharded, type TensorParallel } from './tensor-parallel.js';

export interface GatherRowsOptions {
  /** [S, B, H] or, with sequence parallelism, this process's shard [S / t, B, H]. */
  readonly input: Variable;
  /** int32 [M]: flat indices into [S, B] */
  readonly indices: Variable;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Returns selected rows of activations, [M, 1, H], replicated on all processes, even if the sequence is
 * sharded. Only these rows are communicated, and operations on them need no sequence parallelism.
 */
export const gatherRows = checkedOperation(
  'gatherRows',
  (tape: Tape, { input, indices, tensorParallel }: GatherRowsOptions): Variable => {
    if (!isSharded(tensorParallel) || !tensorParallel.sequenceParallel) {
      return gatherOwnRows(tape, { input, indices });
    }
    const { group } = tensorParallel;
    const numRows = input.tensor.size / input.tensor.dim(-1);
    return gatherOwnRows(tape, {
      input,
      indices,
      firstRow: group.rank * numRows,
      numRows: group.size * numRows,
      // each row is on one process, and all further processes contribute zeros, so the sum is exact
      reduceOutput: regionCollectives({ group, sequenceParallel: false }).leave,
    });
  },
);

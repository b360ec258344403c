import { reshape, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';
import { isSharded, joinShares, shareOfRows } from '@mtl/tensor-parallel';
import type { MicroBatchContext } from '../blocks/micro-batch-context.js';

/** The rows that this process routes. Each process routes different rows. */
export interface OwnRows {
  /** [T, 1, H] */
  readonly rows: Variable;
  /**
   * The processes, including this one, that route rows of the same sequences. Undefined if this process has
   * all rows.
   */
  readonly group: ProcessGroup | undefined;
  /**
   * Returns all rows, given this process's rows. If each tensor-parallel process has only a share of the
   * rows, the shares are gathered.
   */
  whole(tape: Tape, rows: Variable): Variable;
}

const asIs: OwnRows['whole'] = (_tape, rows) => rows;

/**
 * Returns the rows that this process routes. If the sequence is sharded, or layers are not sharded, this
 * process routes all its rows. Otherwise, all tensor-parallel processes have the same rows, and each routes a
 * share. If the rows cannot be divided evenly, each process routes all rows outside of training, and an error
 * is thrown in training.
 */
export function ownRows(
  tape: Tape,
  input: Variable,
  { sharding: layers, sequence }: MicroBatchContext,
): OwnRows {
  const [length, numSequences, hiddenSize] = input.tensor.shape as [number, number, number];
  const rows = reshape(tape, { input, shape: [length * numSequences, 1, hiddenSize] });
  // serves layers that are not sharded, and rows that cannot be divided outside of training
  const all = { rows, group: sequence?.group, whole: asIs };
  if (!isSharded(layers)) return all;
  const { group: sharing, sequenceParallel } = layers;
  const group = sequence?.groupWithTensor ?? sharing;
  if (sequenceParallel) return { rows, group, whole: asIs };
  const { size } = sharing;
  if (length % size === 0) {
    const whole: OwnRows['whole'] = (inner, share) => joinShares(inner, share, sharing);
    return { rows: shareOfRows(tape, rows, sharing), group, whole };
  }
  if (!tape.recording) return all;
  throw new ConfigurationError(
    'MTL_TENSOR_PARALLEL_SIZE',
    `${length} positions cannot be shared out evenly over ${size} tensor-parallel processes that route different positions to experts`,
    { expected: `a multiple of ${size} positions`, details: { length, size } },
  );
}

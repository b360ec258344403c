import { type AttentionOptions, attention, type Tape, type Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { Slice } from '@mtl/kernels';

/**
 * Which positions of a sequence a rank owns, before tensor parallelism shards what it owns, and how its
 * queries see the keys that others own. Tokens, labels, weights and the coordinates of rows follow it.
 */
export interface SequencePartition {
  /**
   * The positions of a sequence that this rank owns: slices in the order of its rows, that do not overlap.
   */
  slices(sequenceLength: number): readonly Slice[];
  /**
   * Attention of the queries of the owned positions [own, B, ...], as `attention` of @mtl/autograd computes
   * it for all positions; `keyStart` has the owned queries, and counts keys of the whole sequence.
   */
  attend(tape: Tape, call: PartitionedAttention): Variable;
}

export interface PartitionedAttention extends AttentionOptions {
  /** S: of the whole sequence; undefined where samples are packed. */
  readonly sequenceLength: number | undefined;
}

/** Every rank owns all positions. */
export const wholeSequence: SequencePartition = {
  slices: (sequenceLength) => [{ start: 0, end: sequenceLength }],
  attend: (tape, { sequenceLength: _, ...call }) => attention(tape, call),
};

/**
 * The owned positions one after the other.
 *
 * @throws UsageError `MTL_STAGE` for slices that overlap or are not of the sequence
 */
export function ownedPositions(partition: SequencePartition, sequenceLength: number): Int32Array {
  const slices = partition.slices(sequenceLength);
  const ordered = slices.toSorted((a, b) => a.start - b.start);
  const isOwned = ordered.every(({ start, end }, index) => {
    const free = ordered[index - 1]?.end ?? 0;
    return start >= free && end >= start && end <= sequenceLength;
  });
  if (!isOwned) {
    const written = slices.map(({ start, end }) => `${start} to ${end}`).join(', ');
    throw new UsageError('MTL_STAGE', `a partition of ${sequenceLength} positions owns ${written}`, {
      expected: 'slices of the sequence that do not overlap',
    });
  }
  const positions = new Int32Array(slices.reduce((sum, { start, end }) => sum + end - start, 0));
  let row = 0;
  for (const { start, end } of slices) {
    for (let position = start; position < end; position++) positions[row++] = position;
  }
  return positions;
}

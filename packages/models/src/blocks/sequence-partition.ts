import { type AttentionOptions, attention, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { type Device, type Slice, Tensor } from '@mtl/kernels';

/**
 * Which positions of a sequence a rank owns, before tensor parallelism shards what it owns, and how its
 * queries see the keys that others own. Tokens, labels, weights and the coordinates of rows follow it.
 */
export interface SequencePartition {
  /** The ranks that own the positions of a sequence together. Default: this one owns all. */
  readonly group?: ProcessGroup | undefined;
  /** These and the tensor-parallel ranks of each. Default: there are none of these. */
  readonly groupWithTensor?: ProcessGroup | undefined;
  /**
   * The positions of a sequence that this rank owns: slices in the order of its rows, that do not overlap.
   */
  slices(sequenceLength: number): readonly Slice[];
  /** The slices of queries whose first visible keys `attend` reads. Default: those that are owned as one. */
  keyStartSlices?(sequenceLength: number): readonly Slice[];
  /**
   * Attention of the queries of the owned positions [own, B, ...], as `attention` of @mtl/autograd computes
   * it for all positions; `keyStart` counts keys of the whole sequence: int32 [B, own], or with
   * `keyStartSlices` one [B, length] after the other.
   */
  attend(tape: Tape, call: PartitionedAttention): Variable;
}

export interface PartitionedAttention extends AttentionOptions {
  /** The index of its layer in the model. */
  readonly layer: number;
  /** S: of the whole sequence; undefined where samples are packed. */
  readonly sequenceLength: number | undefined;
}

/** Every rank owns all positions. */
export const wholeSequence: SequencePartition = {
  slices: (sequenceLength) => [{ start: 0, end: sequenceLength }],
  attend: (tape, { sequenceLength: _length, layer: _layer, ...call }) => attention(tape, call),
};

/** The owned positions one after the other. */
const positionsOf = (slices: readonly Slice[]): readonly number[] =>
  slices.flatMap(({ start, end }) => Array.from({ length: end - start }, (_, at) => start + at));

/**
 * Values of all positions [S, B] of those that this rank owns [own, B], the same on all ranks that share the
 * sequence. float32; `device` is where they travel from.
 */
export function valuesOfAllPositions(
  own: Float32Array,
  {
    partition: { group, ...partition },
    sequenceLength,
    device,
  }: { readonly partition: SequencePartition; readonly sequenceLength: number; readonly device: Device },
): Float32Array {
  if (group === undefined || group.size === 1) return own;
  const positions = positionsOf(partition.slices(sequenceLength));
  const [numOwn, batchSize] = [positions.length, own.length / positions.length];
  using ownPositions = Tensor.from(Int32Array.from(positions), { shape: [numOwn], dtype: 'int32', device });
  using input = Tensor.from(own, { shape: [own.length], dtype: 'float32', device });
  using allPositions = Tensor.empty({ shape: [group.size * numOwn], dtype: 'int32', device });
  using output = Tensor.empty({ shape: [group.size * own.length], dtype: 'float32', device });
  group.allGather({ output: allPositions, input: ownPositions }).wait();
  group.allGather({ output, input }).wait();
  const gathered = output.read<'float32'>();
  const all = new Float32Array(gathered.length);
  allPositions.read<'int32'>().forEach((position, row) => {
    all.set(gathered.subarray(row * batchSize, (row + 1) * batchSize), position * batchSize);
  });
  return all;
}

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
  return Int32Array.from(positionsOf(slices));
}

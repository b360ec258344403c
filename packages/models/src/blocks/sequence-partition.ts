import { type AttendRows, attention, type PackedRows } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { type Device, Tensor } from '@mtl/kernels';
import type * as layout from '@mtl/layout';
import type { Upload } from '@mtl/pipeline';
import { uploadConstant } from './upload-constant.js';

interface OwnRowsOptions {
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/** The rows of a micro-batch that this rank owns. */
export type OwnRows = layout.OwnRows<AttendRows>;

/** How a micro-batch's rows are divided over the ranks of a group. Uses this package's types. */
export type SequencePartition = layout.SequencePartition<AttendRows, OwnRowsOptions, ProcessGroup>;

/** The trivial partition: every rank owns all rows. */
export const wholeSequence: SequencePartition = {
  ofSequences: ({ batchSize, sequenceLength, keyStart: first }, options) => {
    const keyStart =
      first && uploadConstant(first, { shape: [batchSize, sequenceLength], dtype: 'int32', ...options });
    return {
      attend: (tape, { layer: _layer, visibility, ...call }) =>
        attention(tape, { ...call, visibility: { ...visibility, keyStart } }),
      release: () => keyStart?.release(),
    };
  },
  ofPackedSamples: ({ starts: first, longest, numScores }, options) => {
    const starts = uploadConstant(first, { shape: [first.length], dtype: 'int32', ...options });
    const packed: PackedRows = { starts, longest, numScores };
    return {
      attend: (tape, { layer: _layer, visibility, ...call }) =>
        attention(tape, { ...call, visibility: { ...visibility, packed } }),
      release: () => starts.release(),
    };
  },
};

/** Returns how many ranks share the rows of a micro-batch. */
export const numOwners = ({ group }: SequencePartition): number => group?.size ?? 1;

/**
 * Gathers one float32 value per row from all ranks that share the rows. `own` contains the values of this
 * rank's rows. All these ranks get the same result. The all-gather runs on `device`.
 */
export function valuesOfAllRows(
  own: Float32Array,
  {
    group,
    indices,
    device,
  }: { readonly group: ProcessGroup | undefined; readonly device: Device } & Pick<OwnRows, 'indices'>,
): Float32Array {
  if (group === undefined || indices === undefined) return own;
  using ownIndices = Tensor.from(indices, { shape: [own.length], dtype: 'int32', device });
  using input = Tensor.from(own, { shape: [own.length], dtype: 'float32', device });
  using allIndices = Tensor.empty({ shape: [group.size * own.length], dtype: 'int32', device });
  using output = Tensor.empty({ shape: [group.size * own.length], dtype: 'float32', device });
  group.allGather({ output: allIndices, input: ownIndices }).wait();
  group.allGather({ output, input }).wait();
  const gathered = output.read<'float32'>();
  const all = new Float32Array(gathered.length);
  allIndices.read<'int32'>().forEach((index, row) => {
    all[index] = gathered[row]!;
  });
  return all;
}

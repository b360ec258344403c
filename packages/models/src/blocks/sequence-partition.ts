import { type AttentionOptions, attention, type PackedRows, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { type Device, Tensor } from '@mtl/kernels';
import type { Upload } from '@mtl/pipeline';
import { uploadConstant } from './upload-constant.js';

/** Sequences of one length, as activations [S, B] are. */
interface SequencesOfBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** `[B]`: global sample numbers (exact integers), which random masks depend on. */
  readonly sampleNumbers: Float64Array;
  /** int32 [B, S]: first visible key of each position; undefined: that of the sequence. */
  readonly keyStart: Int32Array | undefined;
}

/** N samples one after the other in T rows, as activations [T, 1] are. */
interface PackedSamplesOfBatch {
  readonly numRows: number;
  /**
   * int32 [N + 1]: sample n has the rows starts[n] to starts[n + 1]; the rows after the last one's are
   * unused.
   */
  readonly starts: Int32Array;
  /** At least as many rows as any sample has. */
  readonly longest: number;
  /** The sum of the squares of all lengths. */
  readonly numScores: number;
  /** `[N]`: as those of sequences. */
  readonly sampleNumbers: Float64Array;
}

/** Attention as a layer asks for it; which keys are hidden by documents and samples is known of the rows. */
export interface AttentionCall extends Omit<AttentionOptions, 'keyStart' | 'keyMask' | 'packed'> {
  /** The index of its layer in the model. */
  readonly layer: number;
}

/** The rows of a micro-batch that this rank owns, before tensor parallelism shards them. */
export interface OwnRows {
  /** Each one's index among all, in the order of the rank's rows. Default: it owns all. */
  readonly indices?: Int32Array | undefined;
  /** See `LoadedBatch`. */
  readonly variant?: string | undefined;
  /** Attention of the own queries to all keys that they may see: [own, B, A * D]. */
  attend(tape: Tape, call: AttentionCall): Variable;
  /** Gives back what attention reads on the device. */
  release(): void;
}

interface OwnRowsOptions {
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/**
 * The rows of a micro-batch that a rank owns, and how its queries see the keys that others own. Tokens,
 * labels, weights and the coordinates of rows follow it. All ranks of the group own as many rows.
 */
export interface SequencePartition {
  /** The ranks that own the rows of a micro-batch together. Default: this one owns all. */
  readonly group?: ProcessGroup | undefined;
  /** These and the tensor-parallel ranks of each. Default: there are none of these. */
  readonly groupWithTensor?: ProcessGroup | undefined;
  /** Returns this rank's rows of sequences: as many positions of each. */
  ofSequences(batch: SequencesOfBatch, options: OwnRowsOptions): OwnRows;
  /** Returns this rank's rows of packed samples that see all of their keys. */
  ofPackedSamples(batch: PackedSamplesOfBatch, options: OwnRowsOptions): OwnRows;
}

/** Every rank owns all rows. */
export const wholeSequence: SequencePartition = {
  ofSequences: ({ batchSize, sequenceLength, keyStart: first }, options) => {
    const keyStart =
      first && uploadConstant(first, { shape: [batchSize, sequenceLength], dtype: 'int32', ...options });
    return {
      attend: (tape, { layer: _layer, ...call }) => attention(tape, { ...call, keyStart }),
      release: () => keyStart?.release(),
    };
  },
  ofPackedSamples: ({ starts: first, longest, numScores }, options) => {
    const starts = uploadConstant(first, { shape: [first.length], dtype: 'int32', ...options });
    const packed: PackedRows = { starts, longest, numScores };
    return {
      attend: (tape, { layer: _layer, ...call }) => attention(tape, { ...call, packed }),
      release: () => starts.release(),
    };
  },
};

/** Returns the number of ranks that own the rows of a micro-batch together. */
export const numOwners = ({ group }: SequencePartition): number => group?.size ?? 1;

/**
 * Returns the values of all rows, given those of the rows that this rank owns: the same on all ranks that own
 * them together. float32; `device` is where they travel from.
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

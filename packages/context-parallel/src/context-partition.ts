import type { Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import type { Chunks } from './chunks.js';
import type { ContextAttentionCall, ContextCommunication } from './context-attention.js';
import { type ContextOperation, contextOperation } from './context-operation.js';
import { documentChunks } from './document-chunks.js';
import { exchangedHeads } from './exchanged-heads.js';
import { gatheredAttention } from './gathered-attention.js';
import { PackedChunks, type PackedParts, type UploadOptions } from './packed-chunks.js';
import { ringAttention } from './ring-attention.js';
import { rowChunks } from './row-chunks.js';
import type { OwnRows, PackedSamplesOfBatch, SequencesOfBatch } from './rows-of-batch.js';
import { chunkSizeOf, chunksOfRank, sequenceChunks } from './sequence-chunks.js';

export interface ContextPartitionOptions {
  /** The processes that share every sequence. */
  readonly group: ProcessGroup;
  /** These and the tensor-parallel processes of each; undefined: there are none of these. */
  readonly groupWithTensor?: ProcessGroup | undefined;
  /** How they communicate: one word for all layers, or one for each. */
  readonly communication: readonly ContextCommunication[];
}

/** Which rows of a micro-batch this process owns, and how its queries see the keys of others. */
export interface ContextPartition {
  /** As in `ContextPartitionOptions`. */
  readonly group: ProcessGroup;
  readonly groupWithTensor: ProcessGroup | undefined;
  /**
   * Two of the 2 n chunks of every document: one from either end.
   *
   * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for a sequence that cannot be divided
   */
  ofSequences(batch: SequencesOfBatch, options: UploadOptions): OwnRows;
  /** A slice of the rows, for attention to all keys of a sample. */
  ofPackedSamples(batch: PackedSamplesOfBatch, options: UploadOptions): OwnRows;
}

const operations: Readonly<Record<Exclude<ContextCommunication, 'a2a'>, ContextOperation>> = {
  all_gather: gatheredAttention,
  p2p: ringAttention,
};

/** Every sequence divided over processes. */
export function contextPartition(options: ContextPartitionOptions): ContextPartition {
  const { group, groupWithTensor, communication } = options;
  const attendBy =
    (chunks: Chunks) =>
    (tape: Tape, call: ContextAttentionCall): Variable => {
      const how = communication.length === 1 ? communication[0]! : communication[call.layer]!;
      if (how === 'a2a') return exchangedHeads(tape, { call, chunks });
      return contextOperation(tape, { call, chunks }, operations[how]);
    };
  const packedRows = (
    packed: PackedParts & { readonly indices: Int32Array },
    upload: UploadOptions,
  ): OwnRows => {
    const chunks = new PackedChunks(packed, upload);
    return { indices: packed.indices, attend: attendBy(chunks), release: () => chunks.release() };
  };
  return {
    group,
    groupWithTensor,
    ofSequences: (batch, upload) => {
      const { keyStart } = batch;
      if (keyStart === undefined) {
        const chunks = sequenceChunks({ group, ...batch });
        return { indices: ownIndices(batch, group), attend: attendBy(chunks), release: () => {} };
      }
      const isLaunchedAgain = upload.upload !== undefined;
      const packed = documentChunks({ ...batch, keyStart }, { group, isLaunchedAgain });
      const variant = isLaunchedAgain ? `${packed.sampleNumbers.length} documents` : undefined;
      return { ...packedRows(packed, upload), variant };
    },
    ofPackedSamples: (batch, upload) => packedRows(rowChunks(batch, group), upload),
  };
}

/** Of [S, B] those of the own chunks, one after the other. */
function ownIndices(
  { sequenceLength, batchSize }: SequencesOfBatch,
  { rank, size }: ProcessGroup,
): Int32Array {
  const chunkSize = chunkSizeOf(sequenceLength, size) * batchSize;
  const indices = new Int32Array(2 * chunkSize);
  chunksOfRank(rank, size).forEach((chunk, half) => {
    for (let row = 0; row < chunkSize; row++) indices[half * chunkSize + row] = chunk * chunkSize + row;
  });
  return indices;
}

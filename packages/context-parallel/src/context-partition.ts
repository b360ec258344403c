import type { AttendRows, AttentionCall, Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import type { OwnRows, PackedSamplesOfBatch, SequencePartition, SequencesOfBatch } from '@mtl/layout';
import {
  type BlockChunks,
  blocksOfPackedSamples,
  blocksOfSequences,
  type ContextLevels,
} from './blocks-of-processes.js';
import type { Chunks } from './chunks.js';
import type { ContextCommunication } from './context-attention.js';
import { type ContextOperation, contextOperation } from './context-operation.js';
import { attentionOfBlocks, attentionOfSequences, exchangedHeads } from './exchanged-heads.js';
import { gatheredAttention } from './gathered-attention.js';
import { PackedChunks, type PackedParts, type UploadOptions } from './packed-chunks.js';
import { documentChunks, rowChunks } from './packed-parts.js';
import { ringAttention } from './ring-attention.js';
import { chunksOfRank, computeChunkSize, sequenceChunks } from './sequence-chunks.js';

export interface ContextPartitionOptions {
  /** The processes that share every sequence. */
  readonly group: ProcessGroup;
  /**
   * The processes of `group` together with the tensor-parallel processes of each process; undefined without
   * tensor parallelism.
   */
  readonly groupWithTensor?: ProcessGroup | undefined;
  /** The kind of communication for each layer; a single entry applies to all layers. */
  readonly communication: readonly ContextCommunication[];
  /** The groups of both levels (within and across blocks of neighbours); only needed for `a2a+p2p`. */
  readonly levels?: ContextLevels | undefined;
}

/**
 * The partition of a micro-batch's rows over n processes, with attention to the keys of other processes. A
 * process owns two of the `2 * n` chunks of every document, one from each end. If samples are packed and
 * their attention is not causal, the process instead owns a contiguous slice of the rows. A sequence that
 * cannot be divided causes a ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE`.
 */
export interface ContextPartition extends SequencePartition<AttendRows, UploadOptions, ProcessGroup> {
  /** The group of `ContextPartitionOptions`. */
  readonly group: ProcessGroup;
  ofSequences(batch: SequencesOfBatch, upload: UploadOptions): RowsOfProcess;
  ofPackedSamples(batch: PackedSamplesOfBatch, upload: UploadOptions): RowsOfProcess;
}

/** The rows of a micro-batch that one process owns. */
export interface RowsOfProcess extends OwnRows<AttendRows> {
  readonly indices: Int32Array;
}

/**
 * The divided rows with which layers compute. `blocks` is defined if some layers communicate in two levels.
 */
interface DividedRows {
  readonly chunks: Chunks;
  readonly blocks: BlockChunks | undefined;
}

type Attend = (tape: Tape, call: AttentionCall, rows: DividedRows) => Variable;

const by =
  (operation: ContextOperation): Attend =>
  (tape, call, { chunks }) =>
    contextOperation(tape, { call, chunks }, operation);

const ways: Readonly<Record<ContextCommunication, Attend>> = {
  all_gather: by(gatheredAttention),
  p2p: by(ringAttention),
  a2a: (tape, call, { chunks }) =>
    exchangedHeads(tape, { call, order: chunks }, attentionOfSequences(chunks)),
  'a2a+p2p': (tape, call, { blocks }) =>
    exchangedHeads(tape, { call, order: blocks!.order }, attentionOfBlocks(blocks!.chunks, ringAttention)),
};

/**
 * Returns the partition that divides every sequence over processes.
 *
 * @throws UsageError `MTL_CONTEXT_PARALLEL` if layers need two levels and `levels` is missing
 */
export function contextPartition(options: ContextPartitionOptions): ContextPartition {
  const { group, groupWithTensor, communication } = options;
  const needsLevels = communication.includes('a2a+p2p');
  if (needsLevels && options.levels === undefined) {
    throw new UsageError('MTL_CONTEXT_PARALLEL', 'a2a+p2p without `levels`', {
      expected: 'the groups of a block of processes, and of those at the same place of all blocks',
    });
  }
  const levels = needsLevels ? options.levels : undefined;
  const attendBy =
    (rows: DividedRows) =>
    (tape: Tape, call: AttentionCall): Variable => {
      const how = communication.length === 1 ? communication[0]! : communication[call.layer]!;
      return ways[how](tape, call, rows);
    };
  const packedRows = (
    packed: PackedParts & { readonly indices: Int32Array },
    upload: UploadOptions,
  ): RowsOfProcess => {
    const chunks = new PackedChunks(packed, upload);
    const blocks = levels && blocksOfPackedSamples(levels, packed, upload);
    const release = (): void => {
      chunks.release();
      blocks?.release();
    };
    return { indices: packed.indices, attend: attendBy({ chunks, blocks }), release };
  };
  return {
    group,
    groupWithTensor,
    ofSequences: (batch, upload) => {
      const { keyStart } = batch;
      if (keyStart === undefined) {
        const chunks = sequenceChunks({ group, ...batch });
        const blocks = levels && blocksOfSequences(levels, batch);
        const attend = attendBy({ chunks, blocks });
        return { indices: ownIndices(batch, group), attend, release: () => {} };
      }
      const isLaunchedAgain = upload.upload !== undefined;
      const packed = documentChunks({ ...batch, keyStart }, { group, isLaunchedAgain });
      const variant = isLaunchedAgain ? `${packed.sampleNumbers.length} documents` : undefined;
      return { ...packedRows(packed, upload), variant };
    },
    ofPackedSamples: (batch, upload) => packedRows(rowChunks(batch, group), upload),
  };
}

/** Returns the indices in [S, B] of the rows of this process's own chunks, one chunk after the other. */
function ownIndices(
  { sequenceLength, batchSize }: SequencesOfBatch,
  { rank, size }: ProcessGroup,
): Int32Array {
  const chunkSize = computeChunkSize(sequenceLength, size) * batchSize;
  const indices = new Int32Array(2 * chunkSize);
  chunksOfRank(rank, size).forEach((chunk, half) => {
    for (let row = 0; row < chunkSize; row++) indices[half * chunkSize + row] = chunk * chunkSize + row;
  });
  return indices;
}

import type { Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import type { Slice } from '@mtl/kernels';
import { type ContextAttentionCall, type ContextCommunication, contextCall } from './context-attention.js';
import { type ContextOperation, contextOperation } from './context-operation.js';
import { exchangedHeads } from './exchanged-heads.js';
import { gatheredAttention } from './gathered-attention.js';
import { ringAttention } from './ring-attention.js';
import { chunkSizeOf, chunkSlice, chunksOfRank } from './sequence-chunks.js';

export interface ContextPartitionOptions {
  /** The processes that share every sequence. */
  readonly group: ProcessGroup;
  /** These and the tensor-parallel processes of each; undefined: there are none of these. */
  readonly groupWithTensor?: ProcessGroup | undefined;
  /** How they communicate: one word for all layers, or one for each. */
  readonly communication: readonly ContextCommunication[];
}

/** Which positions of a sequence this process owns, and how its queries see the keys of others. */
export interface ContextPartition {
  /** As in `ContextPartitionOptions`. */
  readonly group: ProcessGroup;
  readonly groupWithTensor: ProcessGroup | undefined;
  /** @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for a sequence that cannot be divided */
  slices(sequenceLength: number): readonly Slice[];
  /** The positions whose first visible keys `attend` reads, see `ContextAttentionCall.keyStart`. */
  keyStartSlices(sequenceLength: number): readonly Slice[];
  /** Attention of the own queries to the keys of the whole sequence: [own, B, A * D]. */
  attend(tape: Tape, call: ContextAttentionCall): Variable;
}

const operations: Readonly<Record<Exclude<ContextCommunication, 'a2a'>, ContextOperation>> = {
  all_gather: gatheredAttention,
  p2p: ringAttention,
};

/** Every sequence divided over processes, two chunks each (`chunksOfRank`). */
export function contextPartition(options: ContextPartitionOptions): ContextPartition {
  const { group, groupWithTensor, communication } = options;
  const slices = (sequenceLength: number): readonly Slice[] => {
    const chunkSize = chunkSizeOf(sequenceLength, group.size);
    return chunksOfRank(group.rank, group.size).map((chunk) => chunkSlice(chunk, chunkSize));
  };
  return {
    group,
    groupWithTensor,
    slices,
    keyStartSlices: (sequenceLength) => {
      const all = communication.includes('a2a') ? [{ start: 0, end: sequenceLength }] : [];
      return [...slices(sequenceLength), ...all];
    },
    attend: (tape, attention) => {
      const call = contextCall(attention, group);
      const how = communication.length === 1 ? communication[0]! : communication[attention.layer]!;
      return how === 'a2a' ? exchangedHeads(tape, call) : contextOperation(tape, call, operations[how]);
    },
  };
}

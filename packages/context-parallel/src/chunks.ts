import type { ProcessGroup } from '@mtl/comm';
import type { AttentionOptions as AttentionMasks, Tensor } from '@mtl/kernels';
import type { AttendedHeads } from './context-attention.js';

/** Two chunks by their numbers. */
export interface ChunkPair {
  readonly queries: number;
  readonly keys: number;
}

/** Rows of processes and of sequences: how one order becomes the other. */
export interface RowOrder {
  readonly group: ProcessGroup;
  /** Rows [own, B, W] of activations, chunk after chunk: as they are, or [own, W] of packed samples. */
  enter(rows: Tensor): Tensor;
  /** Back to [own, B, W]; a new tensor. */
  leave(rows: Tensor): Tensor;
  /** Rows in the order of their sequences, of rows process after process; a new tensor. */
  inSequenceOrder(byProcess: Tensor): Tensor;
  /** Rows process after process, of rows in the order of their sequences; a new tensor. */
  inProcessOrder(inSequence: Tensor): Tensor;
}

/**
 * How the rows of a micro-batch are divided over the processes that share it: into chunks of as many rows, of
 * which every process owns as many. What attention of chunks needs to know of them.
 */
export interface Chunks extends RowOrder {
  /** The chunks of each process, in the order of its rows. */
  readonly perProcess: number;
  ofRank(rank: number): readonly number[];
  /** Dimensions of the rows of a chunk: [c, B], or [c] where samples are packed. */
  readonly shape: readonly number[];
  /** [B, A, c], of packed samples [A, c]: the log-sum-exp of a chunk of queries, of so many heads. */
  statisticsShape(numHeads: number): readonly number[];
  /** False where the masks of a call hide all keys of a chunk from all queries of another. */
  mayBeSeen(call: AttendedHeads, pair: ChunkPair): boolean;
  /** Masks and dropout of the queries of a chunk and the keys of another. */
  masksOfPair(call: AttendedHeads, pair: ChunkPair): AttentionMasks;
  /** Masks of the queries of a chunk and the first rows of all keys, in the order of their sequences. */
  masksOfAll(
    call: AttendedHeads,
    queries: number,
  ): { readonly numRows: number; readonly masks: AttentionMasks };
  /** [B, A, S], of packed samples [A, T]: the log-sum-exp of all queries. */
  wholeStatisticsShape(numHeads: number): readonly number[];
  /** Masks of all queries and all keys, in the order of their sequences. */
  wholeMasks(call: AttendedHeads): AttentionMasks;
}

/** The masks and the dropout of a call that are the same for all chunks. */
export function chunkMasks(
  { causal = false, windowSize, dropout, headOffset = 0 }: AttendedHeads,
  /** int64: the numbers of samples. Default: those of the call. */
  samples: Tensor | undefined = dropout?.samples.tensor,
): AttentionMasks {
  return {
    causal,
    windowSize,
    dropout: dropout && {
      probability: dropout.probability,
      keyLow: dropout.key[0],
      keyHigh: dropout.key[1],
      samples: samples!,
      headOffset,
    },
  };
}

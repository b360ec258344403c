import type { ProcessGroup } from '@mtl/comm';
import type { AttentionOptions as AttentionMasks, Tensor } from '@mtl/kernels';
import type { AttendedHeads } from './context-attention.js';

/** Two chunks by their numbers. */
export interface ChunkPair {
  readonly queries: number;
  readonly keys: number;
}

/** Conversions between the row order of processes and the row order of sequences. */
export interface RowOrder {
  readonly group: ProcessGroup;
  /**
   * Returns rows [own, B, W] of activations, chunk after chunk: as they are, or [own, W] of packed samples.
   */
  enter(rows: Tensor): Tensor;
  /** Returns rows as [own, B, W] again; a new tensor. */
  leave(rows: Tensor): Tensor;
  /** Returns rows in the order of their sequences, from rows process after process; a new tensor. */
  inSequenceOrder(byProcess: Tensor): Tensor;
  /** Returns rows process after process, from rows in the order of their sequences; a new tensor. */
  inProcessOrder(inSequence: Tensor): Tensor;
}

/**
 * The division of a micro-batch's rows over the processes that share it: into chunks of equal size; every
 * process owns the same number of chunks. Attention of chunks needs only this interface.
 */
export interface Chunks extends RowOrder {
  /** The chunks of each process, in the order of its rows. */
  readonly perProcess: number;
  ofRank(rank: number): readonly number[];
  /** Dimensions of the rows of a chunk: [c, B], or [c] where samples are packed. */
  readonly shape: readonly number[];
  /**
   * Returns the shape of the log-sum-exp of a chunk of queries with `numHeads` heads: [B, A, c], for packed
   * samples [A, c].
   */
  statisticsShape(numHeads: number): readonly number[];
  /** Returns false where the masks of a call hide all keys of a chunk from all queries of another. */
  mayBeSeen(call: AttendedHeads, pair: ChunkPair): boolean;
  /** Masks and dropout of the queries of a chunk and the keys of another. */
  masksOfPair(call: AttendedHeads, pair: ChunkPair): AttentionMasks;
  /** Masks of the queries of a chunk and the first rows of all keys, in the order of their sequences. */
  masksOfAll(
    call: AttendedHeads,
    queries: number,
  ): { readonly numRows: number; readonly masks: AttentionMasks };
  /** Returns the shape [B, A, S], for packed samples [A, T], of the log-sum-exp of all queries. */
  wholeStatisticsShape(numHeads: number): readonly number[];
  /** Masks of all queries and all keys, in the order of their sequences. */
  wholeMasks(call: AttendedHeads): AttentionMasks;
}

/** Returns the masks and the dropout of a call that are the same for all chunks. */
export function chunkMasks(
  { causal = false, windowSize, dropout, headOffset = 0 }: AttendedHeads,
  /** int64: the numbers of samples. Default: the call's samples. */
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

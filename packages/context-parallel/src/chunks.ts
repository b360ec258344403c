import type { ProcessGroup } from '@mtl/comm';
import type { AttentionOptions as AttentionMasks, Tensor } from '@mtl/kernels';
import type { AttendedHeads } from './context-attention.js';

/** Two chunks of the sequence, by their numbers. */
export interface ChunkPair {
  readonly queries: number;
  readonly keys: number;
}

/** Conversions between the row order of processes and the row order of sequences. */
export interface RowOrder {
  readonly group: ProcessGroup;
  /**
   * Converts rows [own, B, W] of activations to the order of chunks, one chunk after the other: unchanged, or
   * [own, W] for packed samples.
   */
  enter(rows: Tensor): Tensor;
  /** Converts rows back to [own, B, W]; returns a new tensor. */
  leave(rows: Tensor): Tensor;
  /** Reorders rows, process after process, to the order of their sequences; returns a new tensor. */
  inSequenceOrder(byProcess: Tensor): Tensor;
  /** Reorders rows in the order of their sequences to process after process; returns a new tensor. */
  inProcessOrder(inSequence: Tensor): Tensor;
}

/**
 * The division of a micro-batch's rows over the processes that share it. All chunks have the same size, and
 * all processes own the same number of chunks. Attention of chunks needs only this interface.
 */
export interface Chunks extends RowOrder {
  /** The number of chunks of each process. */
  readonly perProcess: number;
  ofRank(rank: number): readonly number[];
  /** Dimensions of the rows of a chunk: [c, B], or [c] for packed samples. */
  readonly shape: readonly number[];
  /**
   * Returns the shape of the log-sum-exp of a chunk of queries with `numHeads` heads: [B, A, c], for packed
   * samples [A, c].
   */
  statisticsShape(numHeads: number): readonly number[];
  /** Returns false if the masks of a call hide all keys of one chunk from all queries of the other. */
  mayBeSeen(call: AttendedHeads, pair: ChunkPair): boolean;
  /** Returns the masks and the dropout for the queries of one chunk and the keys of the other. */
  masksOfPair(call: AttendedHeads, pair: ChunkPair): AttentionMasks;
  /**
   * Returns the masks for the queries of a chunk and the first rows of all keys, in the order of their
   * sequences.
   */
  masksOfAll(
    call: AttendedHeads,
    queries: number,
  ): { readonly numRows: number; readonly masks: AttentionMasks };
  /** Returns the shape [B, A, S], for packed samples [A, T], of the log-sum-exp of all queries. */
  wholeStatisticsShape(numHeads: number): readonly number[];
  /** Returns the masks for all queries and all keys, in the order of their sequences. */
  wholeMasks(call: AttendedHeads): AttentionMasks;
}

/** Returns the masks and the dropout of a call that are the same for all chunks. */
export function chunkMasks(
  { causal = false, windowSize, dropout, headOffset = 0 }: AttendedHeads,
  /** int64: the numbers of the samples, for dropout. Default: the samples of the call. */
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

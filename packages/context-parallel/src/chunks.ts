import type { ProcessGroup } from '@mtl/comm';
import type { AttentionOptions, Tensor, Visibility } from '@mtl/kernels';
import type { AttendedCall } from './context-attention.js';

/** Two chunks of the sequence, identified by their numbers. */
export interface ChunkPair {
  readonly queries: number;
  readonly keys: number;
}

/** Conversions between the row order of processes and the row order of sequences. */
export interface RowOrder {
  readonly group: ProcessGroup;
  /**
   * Reorders the rows [own, B, ...] of activations, so that one chunk follows the other. The result is a view
   * of the same shape, or, for packed samples, a view or copy [own, ...]. `rows` may be strided.
   */
  enter(rows: Tensor): Tensor;
  /**
   * Calls `write` with memory for rows in the order of chunks. Then stores the rows that `write` has written
   * in `target`, [own, B, ...], in the order of `target`.
   */
  into(target: Tensor, write: (rows: Tensor) => void): void;
  /**
   * Reorders rows from process order (one process after the other) to sequence order; returns a new tensor.
   */
  inSequenceOrder(byProcess: Tensor): Tensor;
  /**
   * Reorders rows from sequence order to process order (one process after the other); returns a new tensor.
   */
  inProcessOrder(inSequence: Tensor): Tensor;
}

/**
 * The division of a micro-batch's rows into chunks over the processes that share it. All chunks have the same
 * size, and all processes own the same number of chunks. The attention of chunks uses only this interface.
 */
export interface Chunks extends RowOrder {
  /** The number of chunks of each process. */
  readonly perProcess: number;
  ofRank(rank: number): readonly number[];
  /** The row dimensions of a chunk: [c, B], or [c] for packed samples. */
  readonly shape: readonly number[];
  /**
   * Returns the shape of the log-sum-exp for a chunk of queries with `numHeads` heads: [B, A, c], or [A, c]
   * for packed samples.
   */
  statisticsShape(numHeads: number): readonly number[];
  /**
   * Returns false if the masks of a call hide all keys of chunk `pair.keys` from all queries of chunk
   * `pair.queries`.
   */
  mayBeSeen(call: AttendedCall, pair: ChunkPair): boolean;
  /**
   * Returns the attention options for the queries of chunk `pair.queries` and the keys of chunk `pair.keys`.
   */
  optionsOfPair(call: AttendedCall, pair: ChunkPair): AttentionOptions;
  /**
   * Returns the attention options for the queries of a chunk and the first `numRows` rows of all keys in
   * sequence order.
   */
  optionsOfAll(
    call: AttendedCall,
    queries: number,
  ): { readonly numRows: number; readonly options: AttentionOptions };
  /** Returns the shape of the log-sum-exp of all queries: [B, A, S], or [A, T] for packed samples. */
  wholeStatisticsShape(numHeads: number): readonly number[];
  /** Returns the attention options for all queries and all keys in sequence order. */
  wholeOptions(call: AttendedCall): AttentionOptions;
}

/** The samples to which the rows of chunks belong. */
interface SamplesOfChunks {
  /** The visibility restrictions that result from the chunks, in addition to the call's restrictions. */
  readonly visibility?: Visibility;
  /** int64: the sample numbers, for dropout masks. Default: the samples of the call. */
  readonly samples?: Tensor;
}

/** Returns the kernel options of attention for the given chunks. */
export function chunkOptions(
  { visibility: ofCall, scale, softCap, dropout, headOffset = 0 }: AttendedCall,
  { visibility, samples = dropout?.samples.tensor }: SamplesOfChunks,
): AttentionOptions {
  const { causal, windowSize } = ofCall ?? {};
  return {
    visibility: { causal, windowSize, ...visibility },
    ...(scale !== undefined && { scale }),
    softCap,
    dropout: dropout && {
      probability: dropout.probability,
      keyLow: dropout.key[0],
      keyHigh: dropout.key[1],
      samples: samples!,
      headOffset,
    },
  };
}

import type { ProcessGroup } from '@mtl/comm';
import type { AttentionOptions, Tensor, Visibility } from '@mtl/kernels';
import type { AttendedCall } from './context-attention.js';

/** Two chunks of the sequence, by their numbers. */
export interface ChunkPair {
  readonly queries: number;
  readonly keys: number;
}

/** Conversions between the row order of processes and the row order of sequences. */
export interface RowOrder {
  readonly group: ProcessGroup;
  /**
   * Converts rows [own, B, ...] of activations to the order of chunks, one chunk after the other: a view of
   * the same shape, or for packed samples [own, ...], a view or a copy. `rows` may be strided.
   */
  enter(rows: Tensor): Tensor;
  /** Runs `write` with rows in the order of chunks, and has what it wrote in `target`, [own, B, ...]. */
  into(target: Tensor, write: (rows: Tensor) => void): void;
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
  mayBeSeen(call: AttendedCall, pair: ChunkPair): boolean;
  /** Returns the options of attention of the queries of one chunk to the keys of the other. */
  optionsOfPair(call: AttendedCall, pair: ChunkPair): AttentionOptions;
  /**
   * Returns the options of attention of the queries of a chunk to the first rows of all keys, in the order of
   * their sequences.
   */
  optionsOfAll(
    call: AttendedCall,
    queries: number,
  ): { readonly numRows: number; readonly options: AttentionOptions };
  /** Returns the shape [B, A, S], for packed samples [A, T], of the log-sum-exp of all queries. */
  wholeStatisticsShape(numHeads: number): readonly number[];
  /** Returns the options of attention of all queries to all keys, in the order of their sequences. */
  wholeOptions(call: AttendedCall): AttentionOptions;
}

/** The samples whose rows chunks have. */
interface SamplesOfChunks {
  /** The visibility that the chunks decide, in addition to the visibility of the call. */
  readonly visibility?: Visibility;
  /** int64: the numbers of the samples, for dropout. Default: the samples of the call. */
  readonly samples?: Tensor;
}

/** Returns the options of a call of kernels for some chunks. */
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

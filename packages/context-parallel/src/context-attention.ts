import type { AttentionOptions, Tape, Variable } from '@mtl/autograd';

/**
 * The communication by which queries meet the keys of other processes. `all_gather`: every process gets the
 * keys and values of all (Llama Team 2024, 3.3.2); `p2p`: they go round in a ring, and partial results are
 * merged (Ring Attention, Liu et al. 2023); `a2a`: every process gets all positions of some heads
 * (DeepSpeed-Ulysses, Jacobs et al. 2023); `a2a+p2p`: blocks of neighbours exchange heads, and keys go round
 * the blocks (USP, Fang and Zhao 2024).
 */
export type ContextCommunication = 'all_gather' | 'p2p' | 'a2a' | 'a2a+p2p';

/** The heads, masks and dropout of a call, without its operand. */
export type AttendedHeads = Omit<ContextAttentionCall, 'qkv'>;

/** A call of attention whose queries are those of the rows that this process owns, [own, B, ...]. */
export interface ContextAttentionCall extends Omit<AttentionOptions, 'keyStart' | 'keyMask' | 'packed'> {
  /** The index of its layer in the model. */
  readonly layer: number;
}

/** Sequences of one length, [S, B]. */
export interface SequencesOfBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** `[B]`: global numbers of the samples, which random masks depend on. */
  readonly sampleNumbers: Float64Array;
  /** int32 [B, S]: the first position of each one's document; undefined: a sequence is one. */
  readonly keyStart: Int32Array | undefined;
}

/** Samples that lie one after the other in T rows. */
export interface PackedSamplesOfBatch {
  readonly numRows: number;
  /**
   * int32 [N + 1]: sample n has the rows starts[n] to starts[n + 1]; the rows after the last one's are
   * unused.
   */
  readonly starts: Int32Array;
  /** `[N]`: as those of sequences. */
  readonly sampleNumbers: Float64Array;
}

/** The rows of a micro-batch that this process owns, until they are released. */
export interface OwnRows {
  /** Each one's index among all, [S, B] or T, of which each process has as many. */
  readonly indices: Int32Array;
  /** The difference between micro-batches of one shape, in words; undefined: there is none. */
  readonly variant?: string | undefined;
  /** Computes attention of the own queries to the keys of all that they may see: [own, B, A * D]. */
  attend(tape: Tape, call: ContextAttentionCall): Variable;
  release(): void;
}

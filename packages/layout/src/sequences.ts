import type { SequencesOfBatch } from './batches.js';

/** N samples, stored one after another in T rows, as in activations [T, 1]. */
export interface PackedSamplesOfBatch {
  /** T */
  readonly numRows: number;
  /**
   * int32 [N + 1]. Sample n has the rows starts[n] to starts[n + 1] - 1. Rows after the last sample are
   * unused.
   */
  readonly starts: Int32Array;
  /** An upper bound on the rows of any sample. */
  readonly longest: number;
  /** How many attention scores a head computes: the sum of the squared sample lengths. */
  readonly numScores: number;
  /** `[N]`: the indices of the samples in the dataset, as in `NumberedBatch.sampleNumbers`. */
  readonly sampleNumbers: Float64Array;
}

/**
 * The rows of a micro-batch that this rank owns, before tensor parallelism shards them. `Attend` is the type
 * of a function for attention: this rank's queries attend to all keys that the mask permits.
 */
export interface OwnRows<Attend> {
  /** For each row of this rank, its index among all rows. If it is undefined, this rank owns all rows. */
  readonly indices?: Int32Array | undefined;
  /**
   * A string that differs between micro-batches of equal shape if their forward and backward passes run
   * different operations. Undefined if equal shapes always lead to the same operations.
   */
  readonly variant?: string | undefined;
  readonly attend: Attend;
  /** Releases the device tensors that attention reads. */
  release(): void;
}

/**
 * Divides the rows of a micro-batch over ranks, and provides attention of a rank's queries to the keys that
 * other ranks hold. Tokens, labels, weights and row coordinates are all divided in the same way, and all
 * ranks in the group own equally many rows. `Upload` is the type of a function that copies the tensors for
 * attention to the device. `Group` is the type of a process group.
 */
export interface SequencePartition<Attend, Upload, Group> {
  /** The ranks that share the rows of a micro-batch. If it is undefined, this rank owns all rows. */
  readonly group?: Group | undefined;
  /**
   * All tensor-parallel ranks of each rank in `group`, which includes the ranks of `group` themselves.
   * Undefined if there is no such group.
   */
  readonly groupWithTensor?: Group | undefined;
  /**
   * Returns this rank's rows of the given sequences: equally many positions from every sequence.
   *
   * @throws ConfigurationError if a sequence cannot be divided; the partition determines the error code
   */
  ofSequences(batch: SequencesOfBatch, upload: Upload): OwnRows<Attend>;
  /** Returns this rank's rows of packed samples. A query attends to all keys of its own sample. */
  ofPackedSamples(batch: PackedSamplesOfBatch, upload: Upload): OwnRows<Attend>;
}

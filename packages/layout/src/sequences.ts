import type { SequencesOfBatch } from './batches.js';

/** N samples one after the other in T rows, as in activations [T, 1]. */
export interface PackedSamplesOfBatch {
  /** T */
  readonly numRows: number;
  /**
   * int32 [N + 1]: sample n has the rows starts[n] to starts[n + 1]; the rows after the last sample are
   * unused.
   */
  readonly starts: Int32Array;
  /** An upper bound of the number of rows of any sample. */
  readonly longest: number;
  /** The number of attention scores: the sum of the squares of all sample lengths. */
  readonly numScores: number;
  /** `[N]`: the numbers of the samples in the dataset, as `NumberedBatch.sampleNumbers`. */
  readonly sampleNumbers: Float64Array;
}

/**
 * The rows of a micro-batch that a rank owns, before tensor parallelism shards them. `Attend` is a function
 * of the program that computes: attention of this rank's queries to all keys that they may see.
 */
export interface OwnRows<Attend> {
  /**
   * The index of each row among all rows, in the order of the rank's rows. Default: the rank owns all rows.
   */
  readonly indices?: Int32Array | undefined;
  /** The difference between micro-batches of one shape, in words. Default: there is none. */
  readonly variant?: string | undefined;
  readonly attend: Attend;
  /** Releases the tensors that attention reads on the device. */
  release(): void;
}

/**
 * The partition of a micro-batch's rows over ranks, and attention of a rank's queries to the keys of other
 * ranks. Tokens, labels, weights and the coordinates of rows are partitioned in the same way. All ranks of
 * the group own the same number of rows. `Upload` is the function that copies the tensors of attention to the
 * device; `Group` is the type of a group of processes that communicate.
 */
export interface SequencePartition<Attend, Upload, Group> {
  /** The ranks that own the rows of a micro-batch together. Default: this rank owns all rows. */
  readonly group?: Group | undefined;
  /** The ranks of `group` and the tensor-parallel ranks of each. Default: no such ranks. */
  readonly groupWithTensor?: Group | undefined;
  /**
   * Returns this rank's rows of sequences: the same number of positions of each sequence.
   *
   * @throws ConfigurationError for a sequence that cannot be divided, by the partition's code
   */
  ofSequences(batch: SequencesOfBatch, upload: Upload): OwnRows<Attend>;
  /** Returns this rank's rows of packed samples that see all of their keys. */
  ofPackedSamples(batch: PackedSamplesOfBatch, upload: Upload): OwnRows<Attend>;
}

import type { SequencesOfBatch } from './batches.js';

/** N samples that are stored one after the other in T rows, as in activations [T, 1]. */
export interface PackedSamplesOfBatch {
  /** T */
  readonly numRows: number;
  /**
   * int32 [N + 1]: sample n has the rows from starts[n] to starts[n + 1]; rows after the last sample are
   * unused.
   */
  readonly starts: Int32Array;
  /** An upper bound of the number of rows of any sample. */
  readonly longest: number;
  /** The number of attention scores per head: the sum of the squared sample lengths. */
  readonly numScores: number;
  /** `[N]`: the numbers of the samples in the dataset, as in `NumberedBatch.sampleNumbers`. */
  readonly sampleNumbers: Float64Array;
}

/**
 * The rows of a micro-batch that a rank owns, before tensor parallelism shards them. `Attend` is the type of
 * the function that computes attention of this rank's queries to all keys that they may see.
 */
export interface OwnRows<Attend> {
  /** The index of each row of this rank among all rows. Default: the rank owns all rows. */
  readonly indices?: Int32Array | undefined;
  /**
   * Text that differs between two micro-batches if they have equal shapes but their passes run different
   * operations. Default: none.
   */
  readonly variant?: string | undefined;
  readonly attend: Attend;
  /** Releases the device tensors that attention reads. */
  release(): void;
}

/**
 * The division of a micro-batch's rows over ranks, and the communication with which a rank's queries attend
 * to the keys of other ranks. Tokens, labels, weights and row coordinates are all divided in the same way,
 * and all ranks of the group own the same number of rows. `Upload` is the type of the function that copies
 * attention's tensors to the device. `Group` is the type of a process group.
 */
export interface SequencePartition<Attend, Upload, Group> {
  /** The ranks that share the rows of a micro-batch. Default: this rank owns all rows. */
  readonly group?: Group | undefined;
  /** The ranks of `group` together with the tensor-parallel ranks of each. Default: none. */
  readonly groupWithTensor?: Group | undefined;
  /**
   * Returns this rank's rows of sequences: the same number of positions from every sequence.
   *
   * @throws ConfigurationError for a sequence that cannot be divided, with a code of the partition
   */
  ofSequences(batch: SequencesOfBatch, upload: Upload): OwnRows<Attend>;
  /** Returns this rank's rows of packed samples whose queries see all keys of their sample. */
  ofPackedSamples(batch: PackedSamplesOfBatch, upload: Upload): OwnRows<Attend>;
}

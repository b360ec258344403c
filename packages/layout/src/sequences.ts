import type { SequencesOfBatch } from './batches.js';

/** N samples one after the other in T rows, as activations [T, 1] are. */
export interface PackedSamplesOfBatch {
  /** T */
  readonly numRows: number;
  /**
   * int32 [N + 1]: sample n has the rows starts[n] to starts[n + 1]; the rows after the last one's are
   * unused.
   */
  readonly starts: Int32Array;
  /** At least as many rows as any sample has. */
  readonly longest: number;
  /** The sum of the squares of all lengths. */
  readonly numScores: number;
  /** `[N]`: as those of sequences. */
  readonly sampleNumbers: Float64Array;
}

/**
 * The rows of a micro-batch that a rank owns, before tensor parallelism shards them. `Attend` is a function
 * of the program that computes: attention of the own queries to all keys that they may see.
 */
export interface OwnRows<Attend> {
  /** Each one's index among all, in the order of the rank's rows. Default: it owns all. */
  readonly indices?: Int32Array | undefined;
  /** The difference between micro-batches of one shape, in words. Default: there is none. */
  readonly variant?: string | undefined;
  readonly attend: Attend;
  /** Gives back what attention reads on the device. */
  release(): void;
}

/**
 * The rows of a micro-batch that a rank owns, and how its queries see the keys that others own. Tokens,
 * labels, weights and the coordinates of rows follow it. All ranks of the group own as many rows. `Upload` is
 * how a program brings what attention reads to its device; `Group` are processes that communicate.
 */
export interface SequencePartition<Attend, Upload, Group> {
  /** The ranks that own the rows of a micro-batch together. Default: this one owns all. */
  readonly group?: Group | undefined;
  /** These and the tensor-parallel ranks of each. Default: there are none of these. */
  readonly groupWithTensor?: Group | undefined;
  /**
   * Returns this rank's rows of sequences: as many positions of each.
   *
   * @throws ConfigurationError for a sequence that cannot be divided, by the partition's code
   */
  ofSequences(batch: SequencesOfBatch, upload: Upload): OwnRows<Attend>;
  /** Returns this rank's rows of packed samples that see all of their keys. */
  ofPackedSamples(batch: PackedSamplesOfBatch, upload: Upload): OwnRows<Attend>;
}

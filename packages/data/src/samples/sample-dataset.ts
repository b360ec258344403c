import type { SampleBatch } from './sample-batch.js';

/** What every kind of micro-batch has. */
export interface NumberedBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** Exact integers [B]: which samples of the dataset these are. */
  readonly sampleNumbers: Float64Array;
}

/** What a dataset is opened from: plain data, which worker threads can receive. */
export interface SampleDatasetDescription {
  /** The class of the dataset, such as `gpt`. */
  readonly kind: string;
}

/** What a sample was read from. */
export interface SampleDocuments {
  /** The prefix of an indexed dataset, or what else the documents are numbered in. */
  readonly source: string;
  /** Numbers of its documents, from 0. */
  readonly documents: readonly number[];
}

/** Anything samples of one sequence length can be drawn from. */
export interface SampleDataset<Batch extends NumberedBatch = SampleBatch> {
  /** Number of samples. */
  readonly length: number;
  readonly sequenceLength: number;
  /** What a worker thread needs to open the same dataset; its arrays are shared, not copied. */
  readonly description: SampleDatasetDescription;
  /** An empty batch of `batchSize` rows, to be filled and finished. */
  createBatch(batchSize: number): Batch;
  /** Writes sample number `sample` into row `row` of `batch`; every row once, in ascending order. */
  fillRow(options: { readonly sample: number; readonly batch: Batch; readonly row: number }): void;
  /** The batch whose rows are all filled, in the form that is given out. */
  finishBatch(batch: Batch): Batch;
  /** One sample as a batch of its own. */
  sample(sample: number): Batch;
  /**
   * Tokens of a sample before its padding, as far as possible by the index alone: for callers that do not
   * need the tokens. Of datasets whose batches have `lengths`.
   */
  readonly lengthOf?: ((sample: number) => number) | undefined;
  /** The documents that a sample was read from. Of datasets that know them. */
  documentsOf?(sample: number): SampleDocuments;
  /** Closes the files. */
  close(): void;
  [Symbol.dispose](): void;
}

import type { BlendedDatasetDescription } from './blended-dataset.js';
import type { GptDatasetDescription } from './gpt-dataset.js';
import type { SampleBatch } from './sample-batch.js';

/** Anything samples of one sequence length can be drawn from. */
export interface SampleDataset {
  /** Number of samples. */
  readonly length: number;
  readonly sequenceLength: number;
  /** Whether batches carry `keyStart`. */
  readonly hasKeyStart: boolean;
  /** What a worker thread needs to open the same dataset; its arrays are shared, not copied. */
  readonly description: SampleDatasetDescription;
  /** Writes sample number `sample` into row `row` of `batch`. */
  fillRow(options: { readonly sample: number; readonly batch: SampleBatch; readonly row: number }): void;
  /** One sample as a batch of its own. */
  sample(sample: number): SampleBatch;
  /** Closes the files. */
  close(): void;
}

/** A structured-clonable description of a dataset. */
export type SampleDatasetDescription = GptDatasetDescription | BlendedDatasetDescription;

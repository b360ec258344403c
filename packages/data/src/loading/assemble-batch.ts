import { createSampleBatch, type SampleBatch } from '../samples/sample-batch.js';
import type { SampleDataset } from '../samples/sample-dataset.js';

/** Reads samples into a new batch, in the order given. */
export function assembleBatch(dataset: SampleDataset, samples: readonly number[]): SampleBatch {
  const { sequenceLength, hasKeyStart } = dataset;
  // New arrays each time: whoever holds an older batch must not see it change.
  const batch = createSampleBatch({ batchSize: samples.length, sequenceLength, withKeyStart: hasKeyStart });
  for (const [row, sample] of samples.entries()) dataset.fillRow({ sample, batch, row });
  return batch;
}

import type { NumberedBatch, SampleDataset } from './sample-dataset.js';

/** Reads samples into a new batch, in the order given. */
export function assembleBatch<Batch extends NumberedBatch>(
  dataset: SampleDataset<Batch>,
  samples: readonly number[],
): Batch {
  // New arrays each time: a caller that holds an older batch must not see it change.
  const batch = dataset.createBatch(samples.length);
  for (const [row, sample] of samples.entries()) dataset.fillRow({ sample, batch, row });
  return dataset.finishBatch(batch);
}

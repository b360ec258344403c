import { BlendedDataset } from './blended-dataset.js';
import { GptDataset } from './gpt-dataset.js';
import type { SampleDataset, SampleDatasetDescription } from './sample-dataset.js';

/** Opens a dataset from its description, in this thread or in a worker. */
export function openSampleDataset(description: SampleDatasetDescription): SampleDataset {
  return description.kind === 'gpt' ? new GptDataset(description) : new BlendedDataset(description);
}

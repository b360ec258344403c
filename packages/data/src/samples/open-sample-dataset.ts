import { BertDataset } from '../masked/bert-dataset.js';
import { T5Dataset } from '../masked/t5-dataset.js';
import { TaskDataset } from '../tasks/task-dataset.js';
import { BlendedDataset } from './blended-dataset.js';
import { GptDataset } from './gpt-dataset.js';
import type { SampleBatch } from './sample-batch.js';
import type { NumberedBatch, SampleDataset, SampleDatasetDescription } from './sample-dataset.js';

/**
 * Opens a dataset from its description, in this thread or in a worker; `Batch` is what the description's kind
 * gives.
 */
export function openSampleDataset<Batch extends NumberedBatch = SampleBatch>(
  description: SampleDatasetDescription,
): SampleDataset<Batch> {
  // The description's kind says which batches come; it has no trace of their type.
  return open(description) as SampleDataset<NumberedBatch> as SampleDataset<Batch>;
}

function open(description: SampleDatasetDescription): unknown {
  switch (description.kind) {
    case 'gpt':
      return new GptDataset(description);
    case 'bert':
      return new BertDataset(description);
    case 't5':
      return new T5Dataset(description);
    case 'task':
      return new TaskDataset(description);
    case 'blended':
      return new BlendedDataset(description);
  }
}

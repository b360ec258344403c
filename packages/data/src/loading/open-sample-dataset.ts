import { UsageError } from '@mtl/errors';
import type { NumberedBatch, TokenBatch } from '@mtl/layout';
import {
  ConversationDataset,
  type ConversationDatasetDescription,
} from '../conversations/conversation-dataset.js';
import { BertDataset, type BertDatasetDescription } from '../masked/bert-dataset.js';
import { BlendedDataset, type BlendedDatasetDescription } from '../samples/blended-dataset.js';
import { GptDataset, type GptDatasetDescription } from '../samples/gpt-dataset.js';
import type { SampleDataset, SampleDatasetDescription } from '../samples/sample-dataset.js';
import { TaskDataset, type TaskDatasetDescription } from '../samples/task-dataset.js';

/** The descriptions of this package's datasets. */
type KnownDescription =
  | GptDatasetDescription
  | BertDatasetDescription
  | TaskDatasetDescription
  | ConversationDatasetDescription
  | BlendedDatasetDescription;

/**
 * Opens a dataset from its description, in this thread or in a worker thread. The description's kind
 * determines `Batch`.
 *
 * @throws UsageError MTL_DATA_KIND if the description's kind is unknown
 */
export function openSampleDataset<Batch extends NumberedBatch = TokenBatch>(
  description: SampleDatasetDescription,
): SampleDataset<Batch> {
  // the description's kind determines the batch type, but the type system cannot express this
  return open(description as KnownDescription) as SampleDataset<NumberedBatch> as SampleDataset<Batch>;
}

function open(description: KnownDescription): unknown {
  switch (description.kind) {
    case 'gpt':
      return new GptDataset(description);
    case 'bert':
      return new BertDataset(description);
    case 'task':
      return new TaskDataset(description);
    case 'conversations':
      return new ConversationDataset(description);
    case 'blended':
      return new BlendedDataset(
        description,
        description.datasets.map((part) => openSampleDataset(part)),
      );
    default: {
      const { kind } = description as SampleDatasetDescription;
      throw new UsageError('MTL_DATA_KIND', `unknown kind of dataset: ${String(kind)}`, {
        expected: 'gpt, bert, task, conversations or blended',
      });
    }
  }
}

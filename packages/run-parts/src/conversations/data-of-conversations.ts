import type { PretrainingConfiguration } from '@mtl/configuration';
import type { NumberedBatch, SplitDatasets } from '@mtl/data';
import { ConversationDataset, type ConversationPart } from '@mtl/data/conversations';
import { UsageError } from '@mtl/errors';
import type { OpenedConversations } from './open-conversations.js';

/**
 * The samples of a run that learns from conversations, filled up with empty ones to whole global batches: an
 * epoch has every conversation once.
 *
 * @throws UsageError MTL_CONVERSATIONS where they were not read
 */
export function dataOfConversations(
  { training }: Pick<PretrainingConfiguration, 'training'>,
  conversations: OpenedConversations | undefined,
) {
  if (conversations === undefined) {
    throw new UsageError('MTL_CONVERSATIONS', 'a training run on conversations is built without them', {
      expected: 'what openConversations returns for its flags',
    });
  }
  const { globalBatchSize, evalIterations } = training;
  const { tokenizer, validation } = conversations;
  const train = samplesOf(conversations.train, globalBatchSize);
  const valid =
    validation === undefined || evalIterations === 0 ? undefined : samplesOf(validation, globalBatchSize);
  const datasets: SplitDatasets<NumberedBatch> = { train, valid, test: undefined };
  return { datasets, train, tokenizer, dataPath: [] };
}

function samplesOf({ packed }: ConversationPart, batchSize: number): ConversationDataset {
  const rows = packed.rowOffsets.length - 1;
  const numSamples = Math.ceil(rows / batchSize) * batchSize;
  return new ConversationDataset({ ...packed, kind: 'conversations', numSamples });
}

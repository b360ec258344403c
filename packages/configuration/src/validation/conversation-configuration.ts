import type { ConversationConfiguration } from '../pretraining-configuration.js';
import { bundledCorpus } from './bundled-corpus.js';
import type { FlagReader } from './flag-reader.js';

/**
 * What the flags say about conversations; undefined where a run has none.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`
 */
export function conversationConfiguration(flags: FlagReader): ConversationConfiguration | undefined {
  const trainData = flags.get('train-data');
  if (trainData === undefined) {
    for (const name of [
      'validation-data',
      'validation-fraction',
      'epochs',
      'early-stopping-patience',
    ] as const)
      if (flags.isGiven(name)) flags.needs(name, '--train-data FILE', 'belongs to conversations');
    return undefined;
  }
  const dataPath = flags.get('data-path');
  if (dataPath !== undefined && !(flags.isDefault('data-path') && dataPath.join() === bundledCorpus)) {
    flags.conflict({
      flags: ['train-data', 'data-path'],
      why: 'a run learns from conversations or from documents',
      remedy: 'pass --train-data alone; a model that was pretrained here is named with --load DIR --finetune',
    });
  }
  const validationData = flags.get('validation-data') ?? [];
  const validationFraction = flags.required('validation-fraction');
  if (validationData.length > 0 && validationFraction > 0) {
    flags.conflict({
      flags: ['validation-data', 'validation-fraction'],
      why: 'the conversations to evaluate on come from files or from those to train on',
    });
  }
  const patience = flags.get('early-stopping-patience');
  if (patience !== undefined && validationData.length === 0 && validationFraction === 0) {
    flags.needs(
      'early-stopping-patience',
      '--validation-fraction 0.05',
      'needs conversations to evaluate on',
    );
  }
  return {
    trainData,
    validationData,
    validationFraction,
    long: flags.required('long-conversations'),
    ...(patience === undefined ? {} : { patience }),
  };
}

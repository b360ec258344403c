import { UsageError } from '@mtl/errors';
import type { BertModelConfiguration } from '@mtl/models';
import type { BertConfiguration, PretrainingConfiguration } from '../pretraining-configuration.js';
import { modelOfConfiguration } from './model-of-configuration.js';

type FieldsOfFlags = Omit<BertModelConfiguration, 'vocabularySize' | 'tokenTypeVocabularySize'>;

/** The architecture for a vocabulary: flags and tokenizer together. */
export function bertModelOf(
  configuration: Pick<PretrainingConfiguration, 'model' | 'bert'>,
  vocabularySize: number,
): BertModelConfiguration {
  const bert = bertOf(configuration);
  const fields = modelOfConfiguration('bert', { model: configuration.model, bert }) as FieldsOfFlags;
  return { ...fields, vocabularySize, tokenTypeVocabularySize: 2 };
}

/**
 * What a BERT has in addition to what all models have.
 *
 * @throws UsageError MTL_MODEL_KIND for the configuration of another model
 */
export function bertOf({ bert }: Pick<PretrainingConfiguration, 'bert'>): BertConfiguration {
  if (bert !== undefined) return bert;
  throw new UsageError('MTL_MODEL_KIND', 'a BERT is built from the configuration of another model', {
    expected: "a configuration whose kind is 'bert'",
  });
}

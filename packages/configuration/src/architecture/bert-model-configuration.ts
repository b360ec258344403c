import { UsageError } from '@mtl/errors';
import type { BertModelConfiguration } from '@mtl/models';
import type { BertConfiguration, PretrainingConfiguration } from '../pretraining-configuration.js';
import { transformerConfiguration } from './transformer-configuration.js';

/** The architecture for a vocabulary: flags and tokenizer together. */
export function bertModelConfiguration(
  configuration: Pick<PretrainingConfiguration, 'model' | 'bert'>,
  vocabularySize: number,
): BertModelConfiguration {
  const { layerNormPlacement, sentenceOrderHead } = bertOf(configuration);
  return {
    ...transformerConfiguration(configuration.model, vocabularySize),
    tokenTypeVocabularySize: 2,
    layerNormPlacement,
    sentenceOrderHead,
    geluKind: configuration.model.geluKind ?? 'erf',
  };
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

import type { GptModelConfiguration } from '@mtl/models';
import type { ModelConfiguration } from '../pretraining-configuration.js';
import { transformerConfiguration } from './transformer-configuration.js';

/** The architecture for a vocabulary: flags and tokenizer together. */
export function gptModelConfiguration(
  model: ModelConfiguration,
  vocabularySize: number,
): GptModelConfiguration {
  return {
    ...transformerConfiguration(model, vocabularySize),
    tieEmbeddings: !model.untieEmbeddingsAndOutputWeights,
    geluKind: model.geluKind ?? 'tanh',
  };
}

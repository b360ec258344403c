import type { GptModelConfiguration } from '@mtl/models';
import type { ModelConfiguration } from '../gpt-configuration.js';
import { transformerConfiguration } from './transformer-configuration.js';

/** The architecture for a vocabulary: flags and tokenizer together. */
export function gptModelConfiguration(
  model: ModelConfiguration,
  vocabularySize: number,
): GptModelConfiguration {
  return {
    ...transformerConfiguration(model, vocabularySize),
    tieEmbeddings: !model.untieEmbeddingsAndOutputWeights,
    geluKind: 'tanh',
  };
}

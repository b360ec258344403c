import type { GptModelConfiguration } from '@mtl/models';
import type { ModelConfiguration } from '../pretraining-configuration.js';
import { modelOfConfiguration } from './model-of-configuration.js';

/** The architecture for a vocabulary: flags and tokenizer together. */
export function gptModelOf(model: ModelConfiguration, vocabularySize: number): GptModelConfiguration {
  const fields = modelOfConfiguration('gpt', { model }) as Omit<GptModelConfiguration, 'vocabularySize'>;
  return { ...fields, vocabularySize };
}

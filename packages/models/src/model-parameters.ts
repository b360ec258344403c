import type { Parameter } from '@mtl/autograd';
import type { BertModelConfiguration } from './bert/bert-model.js';
import { bertParameters } from './bert/bert-parameters.js';
import type { LoraSpecification } from './blocks/lora.js';
import type { GptModelConfiguration } from './gpt/gpt-model.js';
import { gptParameters } from './gpt/gpt-parameters.js';

/**
 * Returns all parameters of a GPT, adapters included, or of a BERT, without storage, which takes no memory.
 */
export const modelParameters = (options: {
  readonly kind: 'gpt' | 'bert';
  readonly model: GptModelConfiguration | BertModelConfiguration;
  readonly lora?: LoraSpecification | undefined;
}): readonly Parameter[] =>
  options.kind === 'gpt'
    ? gptParameters(options.model as GptModelConfiguration, options)
    : bertParameters(options.model as BertModelConfiguration);

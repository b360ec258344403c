import type { LoraSpecification } from '../blocks/lora-specification.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { gptParameters } from './gpt-parameters.js';

/** The logical names of all parameters of a model, adapters included, on whatever rank. */
export const gptParameterNames = (
  model: GptModelConfiguration,
  options: { readonly lora?: LoraSpecification | undefined } = {},
): readonly string[] => gptParameters(model, options).map(({ name }) => name);

import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { gptParameters } from './gpt-parameters.js';

/** The logical names of all parameters of a model, on whatever rank. */
export const gptParameterNames = (model: GptModelConfiguration): readonly string[] =>
  gptParameters(model).map(({ name }) => name);

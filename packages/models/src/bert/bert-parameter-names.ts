import type { BertModelConfiguration } from './bert-model-configuration.js';
import { bertParameters } from './bert-parameters.js';

/** The logical names of all parameters of a model, on whatever rank. */
export const bertParameterNames = (model: BertModelConfiguration): readonly string[] =>
  bertParameters(model).map(({ name }) => name);

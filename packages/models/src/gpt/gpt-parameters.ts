import type { Parameter } from '@mtl/autograd';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { GptStage } from './gpt-stage.js';

/** All parameters of a model, without storage, which takes no memory. */
export const gptParameters = (model: GptModelConfiguration): readonly Parameter[] =>
  new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

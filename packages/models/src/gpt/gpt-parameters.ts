import type { Parameter } from '@mtl/autograd';
import type { LoraSpecification } from '../blocks/lora-specification.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { GptStage } from './gpt-stage.js';

/** All parameters of a model, adapters included, without storage, which takes no memory. */
export const gptParameters = (
  model: GptModelConfiguration,
  { lora }: { readonly lora?: LoraSpecification | undefined } = {},
): readonly Parameter[] => new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

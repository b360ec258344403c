import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { GptStage } from './gpt-stage.js';

/** The logical names of all parameters of a model, on whatever rank. */
export function gptParameterNames(model: GptModelConfiguration): readonly string[] {
  // without storage a stage takes no memory
  const stage = new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 });
  return stage.parameters.map(({ name }) => name);
}

import type { BertModelConfiguration } from './bert-model-configuration.js';
import { BertStage } from './bert-stage.js';

/** The logical names of all parameters of a model, on whatever rank. */
export function bertParameterNames(model: BertModelConfiguration): readonly string[] {
  // without storage a stage takes no memory
  const stage = new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 });
  return stage.parameters.map(({ name }) => name);
}

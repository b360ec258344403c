import type { MatmulCost } from '../blocks/matmul-cost.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { GptStage } from './gpt-stage.js';

/** Plans ask many times for the same model. */
const known = new WeakMap<GptModelConfiguration, MatmulCost>();

/** What the matmuls of all layers of a model cost, asked of its blocks. */
export function gptMatmuls(model: GptModelConfiguration): MatmulCost {
  const cost = known.get(model) ?? new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).matmuls;
  known.set(model, cost);
  return cost;
}

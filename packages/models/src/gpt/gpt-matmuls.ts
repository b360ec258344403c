import { type MatmulCost, sumOfCosts } from '../blocks/matmul-cost.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { GptStage } from './gpt-stage.js';

/** Plans ask many times for the same model. */
const known = new WeakMap<GptModelConfiguration, readonly MatmulCost[]>();

/** What the matmuls of each layer of a model cost, asked of its blocks. */
export function gptLayerMatmuls(model: GptModelConfiguration): readonly MatmulCost[] {
  const costs =
    known.get(model) ??
    new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).blocks.map(({ matmuls }) => matmuls);
  known.set(model, costs);
  return costs;
}

/** What the matmuls of all layers of a model cost: of experts those that a token uses. */
export const gptMatmuls = (model: GptModelConfiguration): MatmulCost => sumOfCosts(gptLayerMatmuls(model));

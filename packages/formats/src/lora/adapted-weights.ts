import { type BlockAdapter, type GptModelConfiguration, GptStage } from '@mtl/models';

import type { LoraConfiguration } from './lora-configuration.js';
import { loraModules } from './lora-modules.js';
import { loraSpecificationOf } from './lora-specification-of.js';

/** An adapter of a model, on no device and unsharded. */
export interface AdaptedWeight extends BlockAdapter {
  readonly layer: number;
  /** In the transformers library, within the layer: `self_attn.q_proj`. */
  readonly path: string;
  /** Whether it is of all routed experts, with factors for each of them. */
  readonly isOfExperts: boolean;
}

/**
 * All adapters of a model, layer by layer.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS, as `loraSpecificationOf`
 */
export function adaptedWeights(model: GptModelConfiguration, configuration: LoraConfiguration) {
  const lora = loraSpecificationOf(configuration, model);
  const modules = new Map(loraModules(model).map((module) => [module.target, module]));
  const { blocks } = new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 0 });
  return blocks.flatMap(({ adapters }, layer) =>
    adapters.map((adapter): AdaptedWeight => {
      const { path, isParameter = false } = modules.get(adapter.target)!;
      return { ...adapter, layer, path, isOfExperts: isParameter };
    }),
  );
}

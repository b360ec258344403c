import type { BlockAdapter } from '../blocks/block-adapter.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { GptStage } from '../gpt/gpt-stage.js';
import type { LoraConfiguration } from './lora-configuration.js';
import { loraModules } from './lora-modules.js';
import { loraSpecificationOf } from './lora-specification-of.js';

/** An adapter of a model, on no device and unsharded. */
export interface AdaptedWeight extends BlockAdapter {
  readonly layer: number;
  /** In the transformers library, within the layer: `self_attn.q_proj`. */
  readonly path: string;
}

/**
 * All adapters of a model, layer by layer.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS, as `loraSpecificationOf`
 */
export function adaptedWeights(model: GptModelConfiguration, configuration: LoraConfiguration) {
  const lora = loraSpecificationOf(configuration, model);
  const paths = new Map(loraModules(model).map(({ target, path }) => [target, path]));
  const { blocks } = new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 0 });
  return blocks.flatMap(({ adapters }, layer) =>
    adapters.map((adapter): AdaptedWeight => ({ ...adapter, layer, path: paths.get(adapter.target)! })),
  );
}

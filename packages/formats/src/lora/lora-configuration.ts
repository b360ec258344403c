import type { WeightTerms } from '../huggingface/weight-files.js';

/** The configuration of low-rank adapters, by flags or by PEFT's adapter_config.json. */
export interface LoraConfiguration {
  /** The rank r of the low-rank factors A and B. */
  readonly rank: number;
  readonly alpha: number;
  /** True if adapters are scaled by alpha / sqrt(r) (Kalajdzievski 2023) instead of alpha / r. */
  readonly useRslora: boolean;
  readonly dropout: number;
  /** Names of the adapted linear layers in the transformers library, such as `q_proj` (see `loraModules`). */
  readonly targets: readonly string[];
}

/** The files of a directory of adapters, by their names in PEFT. */
export const loraConfigName = 'adapter_config.json';
export const loraWeightsName = 'adapter_model.safetensors';

/**
 * The first version of PEFT that stores the experts' factors in our layout. Earlier versions swap A and B,
 * with transposed matrices.
 */
export const versionOfParameters = '0.19.1';

/** Returns true if a logical name belongs to a factor of a low-rank adapter. */
export const isAdapter = (name: string): boolean => /\.lora_[ab]\.weight$/.test(name);

/** Wording of error messages about files of adapters. */
export const loraWeightTerms: WeightTerms = {
  code: 'MTL_HUGGING_FACE_WEIGHTS',
  configuration: loraConfigName,
  remedy: `use adapters that were trained for this model, with the ${loraConfigName} that belongs to them`,
  untied: 'tie_word_embeddings false',
};

/** The remedy in errors about adapters that are not supported. */
export const mergeRemedy =
  'merge them into their model with PEFT (merge_and_unload, then save_pretrained), and pass that directory as --load-hf';

import type { WeightTerms } from '../huggingface/weight-files.js';

/** Low-rank adapters as users ask for them and PEFT's adapter_config.json states them. */
export interface LoraConfiguration {
  /** r */
  readonly rank: number;
  readonly alpha: number;
  /** True where adapters are scaled by alpha / sqrt(r) (Kalajdzievski 2023) instead of alpha / r. */
  readonly useRslora: boolean;
  readonly dropout: number;
  /** Names of linear layers in the transformers library, such as `q_proj` (see `loraModules`). */
  readonly targets: readonly string[];
}

/** The files of a directory of adapters, as PEFT names them. */
export const loraConfigName = 'adapter_config.json';
export const loraWeightsName = 'adapter_model.safetensors';

/**
 * The first version of PEFT that stores the factors of experts as they are here: versions before it have A
 * where B is, of transposed matrices.
 */
export const versionOfParameters = '0.19.1';

/** Returns whether a tensor of a model is a factor of a low-rank adapter, by its logical name. */
export const isAdapter = (name: string): boolean => /\.lora_[ab]\.weight$/.test(name);

/** Words of errors about files of adapters. */
export const loraWeightTerms: WeightTerms = {
  code: 'MTL_HUGGING_FACE_WEIGHTS',
  configuration: loraConfigName,
  remedy: `use adapters that were trained for this model, with the ${loraConfigName} that belongs to them`,
  untied: 'tie_word_embeddings false',
};

/** Remedy for adapters that are not computed here. */
export const mergeRemedy =
  'merge them into their model with PEFT (merge_and_unload, then save_pretrained), and pass that directory as --load-hf';

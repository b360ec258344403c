import type { WeightTerms } from '../huggingface/weight-files.js';

/** The configuration of low-rank adapters, which comes from flags or from PEFT's adapter_config.json. */
export interface LoraConfiguration {
  /** The rank r of the low-rank factors A and B. */
  readonly rank: number;
  readonly alpha: number;
  /** True if adapters are scaled by alpha / sqrt(r) (Kalajdzievski 2023) instead of alpha / r. */
  readonly useRslora: boolean;
  readonly dropout: number;
  /**
   * The names of the adapted linear layers in the transformers library, such as `q_proj` (see `loraModules`).
   */
  readonly targets: readonly string[];
}

/** The names that PEFT gives to the files in a directory of adapters. */
export const loraConfigName = 'adapter_config.json';
export const loraWeightsName = 'adapter_model.safetensors';

/**
 * The first version of PEFT that stores the experts' factors in our layout. Earlier versions swap A and B and
 * transpose the matrices.
 */
export const versionOfParameters = '0.19.1';

/** Returns true if a logical name belongs to a low-rank adapter's factor. */
export const isAdapter = (name: string): boolean => /\.lora_[ab]\.weight$/.test(name);

/** The wording of error messages about files of adapters. */
export const loraWeightTerms: WeightTerms = {
  code: 'MTL_HUGGING_FACE_WEIGHTS',
  configuration: loraConfigName,
  remedy: `use adapters that were trained for this model, with the ${loraConfigName} that belongs to them`,
  untied: 'tie_word_embeddings false',
};

/** The remedy in error messages about unsupported adapters. */
export const mergeRemedy =
  'merge them into their model with PEFT (merge_and_unload, then save_pretrained), and pass that directory as --load-hf';

import type { WeightTerms } from '../huggingface/weight-files.js';

/** Low-rank adapters as users configure them and as PEFT's adapter_config.json describes them. */
export interface LoraConfiguration {
  /** The LoRA rank r. */
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
 * The first version of PEFT that stores the factors of experts as we do. Earlier versions swap A and B, with
 * transposed matrices.
 */
export const versionOfParameters = '0.19.1';

/** Returns whether a tensor of a model is a factor of a low-rank adapter, by its logical name. */
export const isAdapter = (name: string): boolean => /\.lora_[ab]\.weight$/.test(name);

/** Wording of error messages about files of adapters. */
export const loraWeightTerms: WeightTerms = {
  code: 'MTL_HUGGING_FACE_WEIGHTS',
  configuration: loraConfigName,
  remedy: `use adapters that were trained for this model, with the ${loraConfigName} that belongs to them`,
  untied: 'tie_word_embeddings false',
};

/** Advice in errors about adapters that are not supported. */
export const mergeRemedy =
  'merge them into their model with PEFT (merge_and_unload, then save_pretrained), and pass that directory as --load-hf';

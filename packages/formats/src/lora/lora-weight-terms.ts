import type { WeightTerms } from '../huggingface/weight-files.js';
import { loraConfigName } from './lora-file-names.js';

/** How errors about files of adapters read. */
export const loraWeightTerms: WeightTerms = {
  code: 'MTL_HUGGING_FACE_WEIGHTS',
  configuration: loraConfigName,
  remedy: `use adapters that were trained for this model, with the ${loraConfigName} that belongs to them`,
  untied: 'tie_word_embeddings false',
};

/** What to do with adapters that are not computed here. */
export const mergeRemedy =
  'merge them into their model with PEFT (merge_and_unload, then save_pretrained), and pass that directory as --load-hf';

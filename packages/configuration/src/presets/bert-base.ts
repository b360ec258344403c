import type { Flags } from '../flags/flag-schema.js';
import { bertRecipe } from './bert-recipe.js';

/** BERT base (Devlin 2018): 110 million parameters with its vocabulary of 30,522. */
export const bertBase: Flags = {
  ...bertRecipe,
  'num-layers': 12,
  'hidden-size': 768,
  'num-attention-heads': 12,
  'micro-batch-size': 4,
};

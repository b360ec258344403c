import type { Flags } from '../flags/flag-schema.js';
import { bertRecipe } from './bert-recipe.js';

/** Shoeybi 2019, table 4: 336 million parameters, the size of BERT large. */
export const megatronBertWith336m: Flags = {
  ...bertRecipe,
  'num-layers': 24,
  'hidden-size': 1024,
  'num-attention-heads': 16,
  'micro-batch-size': 8,
};

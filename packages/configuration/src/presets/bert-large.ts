import type { Flags } from '../flags/flag-schema.js';
import { bertRecipe } from './bert-recipe.js';

/** BERT large (Devlin 2018): 340 million parameters with its vocabulary of 30,522. */
export const bertLarge: Flags = {
  ...bertRecipe,
  'num-layers': 24,
  'hidden-size': 1024,
  'num-attention-heads': 16,
  'micro-batch-size': 4,
};

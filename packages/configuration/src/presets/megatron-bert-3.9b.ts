import type { Flags } from '../flags/flag-schema.js';
import { bertRecipe } from './bert-recipe.js';

/** Shoeybi 2019, table 4: 3.9 billion parameters; 1.5 million steps when it was reported. */
export const megatronBertWith3900m: Flags = {
  ...bertRecipe,
  'num-layers': 48,
  'hidden-size': 2560,
  'num-attention-heads': 40,
  'micro-batch-size': 8,
};

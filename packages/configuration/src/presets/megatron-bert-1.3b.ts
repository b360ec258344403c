import type { Flags } from '../flags/flag-schema.js';
import { bertRecipe } from './bert-recipe.js';

/** Shoeybi 2019, table 4: 1.3 billion parameters. */
export const megatronBertWith1300m: Flags = {
  ...bertRecipe,
  'num-layers': 24,
  'hidden-size': 2048,
  'num-attention-heads': 32,
  'micro-batch-size': 8,
};

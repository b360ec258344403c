import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** GPT-2 medium; the 355M model of Shoeybi 2019, table 2. */
export const gpt2With355m: Flags = {
  ...gpt2Recipe,
  'num-layers': 24,
  'hidden-size': 1024,
  'num-attention-heads': 16,
  'seq-length': 1024,
  'micro-batch-size': 8,
};

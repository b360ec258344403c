import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** GPT-3 2.7B's width and depth with 20 heads. */
export const gpt2With2700m: Flags = {
  ...gpt2Recipe,
  'num-layers': 32,
  'hidden-size': 2560,
  'num-attention-heads': 20,
  'seq-length': 2048,
  'micro-batch-size': 4,
};

import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** GPT-3 XL's shape with 16 heads. */
export const gpt2With1300m: Flags = {
  ...gpt2Recipe,
  'num-layers': 24,
  'hidden-size': 2048,
  'num-attention-heads': 16,
  'seq-length': 2048,
  'micro-batch-size': 4,
};

import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** GPT-2 small. */
export const gpt2With124m: Flags = {
  ...gpt2Recipe,
  'num-layers': 12,
  'hidden-size': 768,
  'num-attention-heads': 12,
  'seq-length': 1024,
  'micro-batch-size': 2,
};

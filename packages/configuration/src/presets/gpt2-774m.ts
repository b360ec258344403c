import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** GPT-2 large. */
export const gpt2With774m: Flags = {
  ...gpt2Recipe,
  'num-layers': 36,
  'hidden-size': 1280,
  'num-attention-heads': 20,
  'seq-length': 1024,
  'micro-batch-size': 8,
};

import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** Shoeybi 2019, table 1: 1.2 billion parameters, one GPU per model. */
export const megatronWith1200m: Flags = {
  ...gpt2Recipe,
  'num-layers': 40,
  'hidden-size': 1536,
  'num-attention-heads': 16,
  'seq-length': 1024,
  'micro-batch-size': 8,
  'make-vocab-size-divisible-by': 1024,
};

import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** Shoeybi 2019, table 1: 4.2 billion parameters, four GPUs per model. */
export const megatronWith4200m: Flags = {
  ...gpt2Recipe,
  'num-layers': 64,
  'hidden-size': 2304,
  'num-attention-heads': 24,
  'seq-length': 1024,
  'micro-batch-size': 8,
  'make-vocab-size-divisible-by': 1024,
};

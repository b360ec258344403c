import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** Shoeybi 2019, table 1: 8.3 billion parameters, eight GPUs per model. */
export const megatronWith8300m: Flags = {
  ...gpt2Recipe,
  'num-layers': 72,
  'hidden-size': 3072,
  'num-attention-heads': 32,
  'seq-length': 1024,
  'micro-batch-size': 8,
  'make-vocab-size-divisible-by': 1024,
};

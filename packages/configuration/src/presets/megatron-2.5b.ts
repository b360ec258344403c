import type { Flags } from '../flags/flag-schema.js';
import { gpt2Recipe } from './gpt2-recipe.js';

/** Shoeybi 2019, table 1: 2.5 billion parameters, two GPUs per model. */
export const megatronWith2500m: Flags = {
  ...gpt2Recipe,
  'num-layers': 54,
  'hidden-size': 1920,
  'num-attention-heads': 20,
  'seq-length': 1024,
  'micro-batch-size': 8,
  'make-vocab-size-divisible-by': 1024,
};

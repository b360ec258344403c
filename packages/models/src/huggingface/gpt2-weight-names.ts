import type { WeightNames } from './mapped-weights.js';
import type { WeightMapping } from './weight-mapping.js';

// the causal mask, which transformers kept among the weights before version 5, and the tied head
const ignored = /^h\.\d+\.attn\.(bias|masked_bias)$|^lm_head\.weight$/;

/** Of the names of GPT2Model in files of GPT2LMHeadModel. */
export const gpt2Prefix = 'transformer.';

/** How files of GPT-2 are named, for its name map. */
export function gpt2WeightNames(mappings: readonly WeightMapping[]): WeightNames {
  return { mappings, prefix: gpt2Prefix, isIgnored: (name) => ignored.test(name) };
}

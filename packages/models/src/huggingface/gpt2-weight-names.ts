import type { WeightNames } from './mapped-weights.js';
import type { WeightMapping } from './weight-mapping.js';

// the causal mask, which transformers kept among the weights before version 5, and the tied head
const ignored = /^h\.\d+\.attn\.(bias|masked_bias)$|^lm_head\.weight$/;

/** How files of GPT-2 are named, for its name map. */
export function gpt2WeightNames(mappings: readonly WeightMapping[]): WeightNames {
  return { mappings, prefix: 'transformer.', isIgnored: (name) => ignored.test(name) };
}

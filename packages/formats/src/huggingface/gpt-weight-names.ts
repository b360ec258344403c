import type { GptModelConfiguration } from '@mtl/models';
import { canonicalOfMixtral, expertNamesOf } from './expert-weight-mappings.js';
import { gpt2WeightMappings } from './gpt2-weight-mappings.js';
import { llamaPrefix, llamaWeightNames } from './llama-weight-names.js';
import type { WeightNames } from './mapped-weights.js';
import type { GptTypeName } from './model-types.js';

// the causal mask, which transformers kept among the weights before version 5, and the tied head
const ignoredOfGpt2 = /^h\.\d+\.attn\.(bias|masked_bias)$|^lm_head\.weight$/;

/** Of the names of GPT2Model in files of GPT2LMHeadModel. */
const gpt2Prefix = 'transformer.';

/**
 * How files of a model type are named, for its name map.
 *
 * @param tensors the names in the files that are read; those that are written have the names of today
 */
export function gptWeightNames(
  modelType: GptTypeName,
  model: GptModelConfiguration,
  tensors: Iterable<string> = [],
): WeightNames {
  if (modelType !== 'gpt2') {
    return llamaWeightNames(model, {
      ...(model.numExperts !== undefined && { experts: expertNamesOf(modelType, tensors) }),
      ...(modelType === 'mixtral' && { canonical: canonicalOfMixtral }),
    });
  }
  const isIgnored = (name: string): boolean => ignoredOfGpt2.test(name);
  const copies = model.tieEmbeddings ? { 'lm_head.weight': 'wte.weight' } : {};
  return { mappings: gpt2WeightMappings(model), prefix: gpt2Prefix, isIgnored, copies };
}

/** The embedding's name in files of a model type, and how names there become those of the name maps. */
export const gptEmbedding = (modelType: GptTypeName) =>
  modelType === 'gpt2'
    ? embeddingNamed('wte.weight', gpt2Prefix)
    : embeddingNamed('embed_tokens.weight', llamaPrefix);

/** A tied model may store the head alone, which has the same shape. */
const embeddingNamed = (embedding: string, prefix: string) => ({
  embedding,
  naming: { prefix, copies: { 'lm_head.weight': embedding } },
});

import type { BertModelConfiguration } from '@mtl/models';
import { bertWeightNames } from '../../huggingface/bert-weight-mappings.js';
import type { WeightNames } from '../../huggingface/mapped-weights.js';
import type { HuggingFaceTensor } from '../../huggingface/weight-mapping.js';

/**
 * The names in GGUF files, by the names in the transformers library: first for modules of the whole model,
 * then for modules of a layer.
 */
const modelNames: Readonly<Record<string, string>> = {
  'embeddings.word_embeddings': 'token_embd',
  'embeddings.position_embeddings': 'position_embd',
  'embeddings.token_type_embeddings': 'token_types',
  'embeddings.LayerNorm': 'token_embd_norm',
};

const layerNames: Readonly<Record<string, string>> = {
  'attention.self.query': 'attn_q',
  'attention.self.key': 'attn_k',
  'attention.self.value': 'attn_v',
  'attention.output.dense': 'attn_output',
  'attention.output.LayerNorm': 'attn_output_norm',
  'intermediate.dense': 'ffn_up',
  'output.dense': 'ffn_down',
  'output.LayerNorm': 'layer_output_norm',
};

const ofLayer = /^encoder\.layer\.(\d+)\.(.+)$/;

function renamed({ name, shape }: HuggingFaceTensor): HuggingFaceTensor {
  const end = name.lastIndexOf('.');
  const [module, kind] = [name.slice(0, end), name.slice(end + 1)];
  const [, layer, own] = ofLayer.exec(module) ?? [];
  const ggufModule = own === undefined ? modelNames[module]! : `blk.${layer}.${layerNames[own]!}`;
  return { name: `${ggufModule}.${kind}`, shape };
}

/** Returns true if a BERT's tensor with the given logical name belongs to a head. */
export const isOfHead = (name: string): boolean => !/^(embedding|encoder)\./.test(name);

/** Returns the names of a BERT's tensors in GGUF files. Contains only the encoder, not the heads. */
export function ggufBertNames(model: BertModelConfiguration): WeightNames {
  const mappings = bertWeightNames(model)
    .mappings.filter(({ name }) => !isOfHead(name))
    .map((mapping) => ({ ...mapping, sources: mapping.sources.map(renamed) }));
  return { mappings, prefix: '', isIgnored: () => false };
}

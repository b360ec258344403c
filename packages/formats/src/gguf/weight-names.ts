import { computeHeadSize, type GptModelConfiguration, gptBlock, paddedVocabularySize } from '@mtl/models';
import { gptWeightNames, qkvColumns } from '../huggingface/gpt-weight-names.js';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import type { GptTypeName } from '../huggingface/model-types.js';
import {
  type HuggingFaceTensor,
  paddedTable,
  reorderedRows,
  sameLayout,
  sideBySide,
  type WeightMapping,
} from '../huggingface/weight-mapping.js';
import { pairedRows } from './paired-rows.js';

/**
 * The names in GGUF files, by the names in the transformers library: first for tensors of the whole model,
 * then for modules of a layer.
 */
const modelNames: Readonly<Record<string, string>> = {
  'embed_tokens.weight': 'token_embd.weight',
  'norm.weight': 'output_norm.weight',
  'lm_head.weight': 'output.weight',
};

const layerNames: Readonly<Record<string, string>> = {
  input_layernorm: 'attn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  post_attention_layernorm: 'ffn_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
  'mlp.gate': 'ffn_gate_inp',
  'block_sparse_moe.gate': 'ffn_gate_inp',
  'mlp.shared_expert.gate_proj': 'ffn_gate_shexp',
  'mlp.shared_expert.up_proj': 'ffn_up_shexp',
  'mlp.shared_expert.down_proj': 'ffn_down_shexp',
  'mlp.shared_expert_gate': 'ffn_gate_inp_shexp',
};

const ofLayer = /^layers\.(\d+)\.(.+)\.(weight|bias)$/;

/**
 * Returns a tensor's GGUF name. `name` is its name in transformers' Llama or in a model derived from Llama.
 */
function ggufName(name: string): string {
  const [, layer, module, kind] = ofLayer.exec(name) ?? [];
  return module === undefined ? modelNames[name]! : `blk.${layer}.${layerNames[module]!}.${kind}`;
}

/**
 * Renames a tensor to its GGUF name. A matrix with one row, such as the gate of shared experts, becomes a
 * vector.
 */
const renamed = ({ name, shape }: HuggingFaceTensor): HuggingFaceTensor => ({
  name: ggufName(name),
  shape: shape.length === 2 && shape[0] === 1 ? shape.slice(1) : shape,
});

const ofExperts = /^layers\.(\d+)\..*\.experts\.0\./;

/**
 * Returns the mapping for a layer's experts. GGUF stores three tensors per layer, each with the matrices of
 * all experts.
 */
function expertsMapping(mapping: WeightMapping, layer: string): WeightMapping {
  const { name, globalShape } = mapping;
  const [numExperts, ...sizes] = globalShape as readonly number[];
  const stored = (part: string): HuggingFaceTensor => ({
    name: `blk.${layer}.ffn_${part}_exps.weight`,
    shape: [numExperts!, ...sizes.slice(-2)],
  });
  return sizes.length === 3
    ? sideBySide(name, [stored('gate'), stored('up')], { numGroups: numExperts!, globalShape })
    : sameLayout(name, stored('down'), globalShape);
}

/**
 * Returns the mappings for a Llama or a model derived from Llama.
 *
 * @param options.pairsRows true if the architecture rotates neighbouring features, as `llama` does
 */
function llamaMappings(
  modelType: GptTypeName,
  model: GptModelConfiguration,
  { pairsRows }: { readonly pairsRows: boolean },
): WeightMapping[] {
  const { numGroups = model.numAttentionHeads } = gptBlock(model).attention;
  const heads = [model.numAttentionHeads, numGroups];
  return gptWeightNames(modelType, model).mappings.map((mapping) => {
    const [, layer] = ofExperts.exec(mapping.sources[0]!.name) ?? [];
    if (layer !== undefined) return expertsMapping(mapping, layer);
    const own = { ...mapping, sources: mapping.sources.map(renamed) };
    const isQkv = /\.linear_qkv\.(weight|bias)$/.test(mapping.name);
    return isQkv && pairsRows ? pairedRows(own, { heads, headSize: computeHeadSize(model) }) : own;
  });
}

function gpt2LayerMappings(layer: number, model: GptModelConfiguration): WeightMapping[] {
  const { hiddenSize: h, ffnHiddenSize: f, numAttentionHeads: heads } = model;
  const ours = `decoder.layers.${layer}.`;
  const theirs = `blk.${layer}.`;
  const rowOf = qkvColumns(h, heads);
  const qkv = [heads, 3, h / heads];
  const both = (name: string, source: string, shape: readonly number[]): WeightMapping[] => [
    sameLayout(`${ours}${name}.weight`, { name: `${theirs}${source}.weight`, shape }),
    sameLayout(`${ours}${name}.bias`, { name: `${theirs}${source}.bias`, shape: shape.slice(0, 1) }),
  ];
  return [
    ...both('input_layernorm', 'attn_norm', [h]),
    reorderedRows(
      `${ours}self_attention.linear_qkv.weight`,
      { name: `${theirs}attn_qkv.weight`, shape: [3 * h, h] },
      { globalShape: [...qkv, h], rowOf },
    ),
    reorderedRows(
      `${ours}self_attention.linear_qkv.bias`,
      { name: `${theirs}attn_qkv.bias`, shape: [3 * h] },
      { globalShape: qkv, rowOf },
    ),
    ...both('self_attention.linear_proj', 'attn_output', [h, h]),
    ...both('pre_mlp_layernorm', 'ffn_norm', [h]),
    ...both('mlp.linear_fc1', 'ffn_up', [f, h]),
    ...both('mlp.linear_fc2', 'ffn_down', [h, f]),
  ];
}

function gpt2Mappings(model: GptModelConfiguration): WeightMapping[] {
  const { hiddenSize: h, vocabularySize, maxPositionEmbeddings, numLayers, tieEmbeddings } = model;
  const table = (name: string, source: string): WeightMapping =>
    paddedTable(name, { name: source, shape: [vocabularySize, h] }, paddedVocabularySize(model));
  return [
    table('embedding.word_embeddings.weight', 'token_embd.weight'),
    sameLayout('embedding.position_embeddings.weight', {
      name: 'position_embd.weight',
      shape: [maxPositionEmbeddings, h],
    }),
    ...Array.from({ length: numLayers }, (_, layer) => gpt2LayerMappings(layer, model)).flat(),
    sameLayout('decoder.final_layernorm.weight', { name: 'output_norm.weight', shape: [h] }),
    sameLayout('decoder.final_layernorm.bias', { name: 'output_norm.bias', shape: [h] }),
    ...(tieEmbeddings ? [] : [table('output_layer.weight', 'output.weight')]),
  ];
}

/**
 * Returns true if llama.cpp rotates neighbouring features in models of this type. This is true of the
 * architecture `llama`, which also covers Mistral, Mixtral and SmolLM3.
 */
export const rotatesNeighbours = (modelType: GptTypeName): boolean =>
  ['llama', 'mistral', 'mixtral', 'smollm3'].includes(modelType);

/** Returns the mappings from a GPT's tensors to their names and layouts in GGUF files. */
export function ggufWeightNames(modelType: GptTypeName, model: GptModelConfiguration): WeightNames {
  const pairsRows = rotatesNeighbours(modelType);
  return {
    mappings: modelType === 'gpt2' ? gpt2Mappings(model) : llamaMappings(modelType, model, { pairsRows }),
    prefix: '',
    // ignores two tensors: the frequency factors, which follow from the metadata, and the output head of a
    // tied model
    isIgnored: (name) => name === 'rope_freqs.weight' || (model.tieEmbeddings && name === 'output.weight'),
    ...(model.tieEmbeddings && { copies: { 'output.weight': 'token_embd.weight' } }),
  };
}

import { type GptModelConfiguration, paddedVocabularySize } from '@mtl/models';
import {
  canonicalOfMixtral,
  chooseExpertNames,
  llamaPrefix,
  llamaWeightNames,
} from './llama-weight-names.js';
import type { WeightNames } from './mapped-weights.js';
import type { GptTypeName } from './model-types.js';
import {
  paddedTable,
  reorderedRows,
  sameLayout,
  transposedWeight,
  type WeightMapping,
} from './weight-mapping.js';

// matches the tied head, and the causal mask, which transformers before version 5 stored with the weights
const ignoredOfGpt2 = /^h\.\d+\.attn\.(bias|masked_bias)$|^lm_head\.weight$/;

/** The prefix that the names of GPT2Model have in files of GPT2LMHeadModel. */
const gpt2Prefix = 'transformer.';

/**
 * Returns the weight names in the files of a model type.
 *
 * @param tensors the names in the file to be read. Default: the result has the current names, which are used
 *   for writing
 */
export function gptWeightNames(
  modelType: GptTypeName,
  model: GptModelConfiguration,
  tensors: Iterable<string> = [],
): WeightNames {
  if (modelType !== 'gpt2') {
    return llamaWeightNames(model, {
      ...(model.numExperts !== undefined && { experts: chooseExpertNames(modelType, tensors) }),
      ...(modelType === 'mixtral' && { canonical: canonicalOfMixtral }),
    });
  }
  const isIgnored = (name: string): boolean => ignoredOfGpt2.test(name);
  const copies = model.tieEmbeddings ? { 'lm_head.weight': 'wte.weight' } : {};
  return { mappings: gpt2WeightMappings(model), prefix: gpt2Prefix, isIgnored, copies };
}

/**
 * Returns the embedding's name in files of a model type, and how names in files are converted to names in the
 * mappings.
 */
export const gptEmbedding = (modelType: GptTypeName) =>
  modelType === 'gpt2'
    ? embeddingNamed('wte.weight', gpt2Prefix)
    : embeddingNamed('embed_tokens.weight', llamaPrefix);

/**
 * Returns the names of the embedding and the output head. The files of a tied model may contain the shared
 * matrix only under the head's name.
 */
const embeddingNamed = (embedding: string, prefix: string) => ({
  embedding,
  naming: { prefix, copies: { 'lm_head.weight': embedding } },
});

/**
 * Returns the columns of the transformers library's c_attn in the order of the outputs of this project's qkv
 * [A, 3, D]. In c_attn, all queries are followed by all keys and then all values. In qkv, each head's query,
 * key and value are adjacent.
 */
export function qkvColumns(hiddenSize: number, numHeads: number): Int32Array {
  const headSize = hiddenSize / numHeads;
  return Int32Array.from({ length: 3 * hiddenSize }, (_, row) => {
    const within = row % headSize;
    const part = Math.floor(row / headSize) % 3;
    const head = Math.floor(row / (3 * headSize));
    return part * hiddenSize + head * headSize + within;
  });
}

function layerMappings(layer: number, model: GptModelConfiguration, columnOf: Int32Array): WeightMapping[] {
  const { hiddenSize: h, ffnHiddenSize: f, numAttentionHeads: heads } = model;
  const ours = `decoder.layers.${layer}.`;
  const theirs = `h.${layer}.`;
  const vector = (name: string, source: string, size = h): WeightMapping =>
    sameLayout(`${ours}${name}`, { name: `${theirs}${source}`, shape: [size] });
  const weight = (name: string, source: string, inputs: number, outputs: number): WeightMapping =>
    transposedWeight(`${ours}${name}`, { name: `${theirs}${source}`, shape: [inputs, outputs] });
  const qkv = [heads, 3, h / heads];
  return [
    vector('input_layernorm.weight', 'ln_1.weight'),
    vector('input_layernorm.bias', 'ln_1.bias'),
    transposedWeight(
      `${ours}self_attention.linear_qkv.weight`,
      { name: `${theirs}attn.c_attn.weight`, shape: [h, 3 * h] },
      { globalShape: [...qkv, h], columnOf },
    ),
    reorderedRows(
      `${ours}self_attention.linear_qkv.bias`,
      { name: `${theirs}attn.c_attn.bias`, shape: [3 * h] },
      { globalShape: qkv, rowOf: columnOf },
    ),
    weight('self_attention.linear_proj.weight', 'attn.c_proj.weight', h, h),
    vector('self_attention.linear_proj.bias', 'attn.c_proj.bias'),
    vector('pre_mlp_layernorm.weight', 'ln_2.weight'),
    vector('pre_mlp_layernorm.bias', 'ln_2.bias'),
    weight('mlp.linear_fc1.weight', 'mlp.c_fc.weight', h, f),
    vector('mlp.linear_fc1.bias', 'mlp.c_fc.bias', f),
    weight('mlp.linear_fc2.weight', 'mlp.c_proj.weight', f, h),
    vector('mlp.linear_fc2.bias', 'mlp.c_proj.bias'),
  ];
}

/**
 * Returns the mappings for the GPT-2 of the transformers library. The names in the mappings have no prefix
 * `transformer.`, which files add to all names except `lm_head.weight`. The library stores GPT-2's linear
 * layers as Conv1D with weights [I, O].
 */
function gpt2WeightMappings(model: GptModelConfiguration): WeightMapping[] {
  const { hiddenSize, vocabularySize, maxPositionEmbeddings, numLayers } = model;
  const paddedRows = paddedVocabularySize(model);
  const table = (name: string, source: string): WeightMapping =>
    paddedTable(name, { name: source, shape: [vocabularySize, hiddenSize] }, paddedRows);
  const columnOf = qkvColumns(hiddenSize, model.numAttentionHeads);
  const norm = (part: string): WeightMapping =>
    sameLayout(`decoder.final_layernorm.${part}`, { name: `ln_f.${part}`, shape: [hiddenSize] });
  return [
    table('embedding.word_embeddings.weight', 'wte.weight'),
    sameLayout('embedding.position_embeddings.weight', {
      name: 'wpe.weight',
      shape: [maxPositionEmbeddings, hiddenSize],
    }),
    ...Array.from({ length: numLayers }, (_, layer) => layerMappings(layer, model, columnOf)).flat(),
    norm('weight'),
    norm('bias'),
    ...(model.tieEmbeddings ? [] : [table('output_layer.weight', 'lm_head.weight')]),
  ];
}

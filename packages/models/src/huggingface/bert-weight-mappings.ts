import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import { paddedVocabularySize } from '../blocks/transformer-configuration.js';
import type { WeightNames } from './mapped-weights.js';
import { paddedTable, paddedVector, sameLayout, sideBySide, type WeightMapping } from './weight-mapping.js';

function layerMappings(layer: number, model: BertModelConfiguration): WeightMapping[] {
  const { hiddenSize: h, ffnHiddenSize: f, numAttentionHeads: heads } = model;
  const ours = `encoder.layers.${layer}.`;
  const theirs = `encoder.layer.${layer}.`;
  const vector = (name: string, source: string, size: number): WeightMapping =>
    sameLayout(`${ours}${name}`, { name: `${theirs}${source}`, shape: [size] });
  const dense = (name: string, source: string, [outputs, inputs]: readonly [number, number]) => [
    sameLayout(`${ours}${name}.weight`, { name: `${theirs}${source}.weight`, shape: [outputs, inputs] }),
    vector(`${name}.bias`, `${source}.bias`, outputs),
  ];
  const norm = (name: string, source: string): WeightMapping[] => [
    vector(`${name}.weight`, `${source}.weight`, h),
    vector(`${name}.bias`, `${source}.bias`, h),
  ];
  const qkv = (kind: 'weight' | 'bias'): WeightMapping =>
    sideBySide(
      `${ours}self_attention.linear_qkv.${kind}`,
      ['query', 'key', 'value'].map((part) => ({
        name: `${theirs}attention.self.${part}.${kind}`,
        shape: kind === 'weight' ? [h, h] : [h],
      })),
      { numGroups: heads, groupShape: kind === 'weight' ? [h / heads, h] : [h / heads] },
    );
  return [
    qkv('weight'),
    qkv('bias'),
    ...dense('self_attention.linear_proj', 'attention.output.dense', [h, h]),
    ...norm('post_attention_layernorm', 'attention.output.LayerNorm'),
    ...dense('mlp.linear_fc1', 'intermediate.dense', [f, h]),
    ...dense('mlp.linear_fc2', 'output.dense', [h, f]),
    ...norm('post_mlp_layernorm', 'output.LayerNorm'),
  ];
}

/** The name map of transformers' BERT, names without the prefix `bert.` (those of the heads begin with `cls.`). */
export function bertWeightMappings(model: BertModelConfiguration): WeightMapping[] {
  const { hiddenSize: h, vocabularySize } = model;
  const paddedRows = paddedVocabularySize(model);
  const both = (name: string, source: string, shape: readonly number[]): WeightMapping[] => [
    sameLayout(`${name}.weight`, { name: `${source}.weight`, shape }),
    sameLayout(`${name}.bias`, { name: `${source}.bias`, shape: shape.slice(0, 1) }),
  ];
  const table = (name: string, source: string, rows: number): WeightMapping =>
    sameLayout(`embedding.${name}.weight`, { name: `embeddings.${source}.weight`, shape: [rows, h] });
  return [
    paddedTable(
      'embedding.word_embeddings.weight',
      { name: 'embeddings.word_embeddings.weight', shape: [vocabularySize, h] },
      paddedRows,
    ),
    table('position_embeddings', 'position_embeddings', model.maxPositionEmbeddings),
    table('tokentype_embeddings', 'token_type_embeddings', model.tokenTypeVocabularySize),
    ...both('embedding.layernorm', 'embeddings.LayerNorm', [h]),
    ...Array.from({ length: model.numLayers }, (_, layer) => layerMappings(layer, model)).flat(),
    ...both('lm_head.dense', 'cls.predictions.transform.dense', [h, h]),
    ...both('lm_head.layer_norm', 'cls.predictions.transform.LayerNorm', [h]),
    paddedVector('output_layer.bias', { name: 'cls.predictions.bias', shape: [vocabularySize] }, paddedRows),
    ...(model.sentenceOrderHead
      ? [
          ...both('pooler.dense', 'pooler.dense', [h, h]),
          ...both('binary_head', 'cls.seq_relationship', [2, h]),
        ]
      : []),
  ];
}

// the tied decoder, buffers of older versions, and the heads that a model without sentence order leaves out
const ignored = /^cls\.predictions\.decoder\.(weight|bias)$|^embeddings\.position_ids$/;
const orderHead = /^(pooler\.dense|cls\.seq_relationship)\.(weight|bias)$/;

/** How files of BERT are named: norms had `gamma` and `beta` in the first ones. */
export function bertWeightNames(model: BertModelConfiguration): WeightNames {
  return {
    mappings: bertWeightMappings(model),
    prefix: 'bert.',
    isIgnored: (name) => ignored.test(name) || (!model.sentenceOrderHead && orderHead.test(name)),
    canonical: (name) =>
      name.replace(/LayerNorm\.gamma$/, 'LayerNorm.weight').replace(/LayerNorm\.beta$/, 'LayerNorm.bias'),
  };
}

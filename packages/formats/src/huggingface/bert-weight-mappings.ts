import {
  type BertModelConfiguration,
  type BertTask,
  numLearnedPositions,
  paddedVocabularySize,
} from '@mtl/models';
import { chooseBertType } from './bert-configuration.js';
import type { WeightNames } from './mapped-weights.js';
import { paddedTable, sameLayout, sideBySide, type WeightMapping } from './weight-mapping.js';

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
      {
        numGroups: heads,
        globalShape: kind === 'weight' ? [heads, 3, h / heads, h] : [heads, 3, h / heads],
      },
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

const dense = (
  name: string,
  source: string,
  [outputs, inputs]: readonly [number, number],
): WeightMapping[] => [
  sameLayout(`${name}.weight`, { name: `${source}.weight`, shape: [outputs, inputs] }),
  sameLayout(`${name}.bias`, { name: `${source}.bias`, shape: [outputs] }),
];

const norm = (name: string, source: string, size: number): WeightMapping[] =>
  ['weight', 'bias'].map((kind) =>
    sameLayout(`${name}.${kind}`, { name: `${source}.${kind}`, shape: [size] }),
  );

const poolerMappings = ({ hiddenSize: h }: BertModelConfiguration): WeightMapping[] =>
  dense('pooler.dense', 'pooler.dense', [h, h]);

/** Returns the mappings for the embeddings and the layers. */
function encoderMappings(model: BertModelConfiguration): WeightMapping[] {
  const { hiddenSize: h, vocabularySize } = model;
  const numPositions = numLearnedPositions(model);
  const table = (name: string, source: string, rows: number): WeightMapping =>
    sameLayout(`embedding.${name}.weight`, { name: `embeddings.${source}.weight`, shape: [rows, h] });
  return [
    paddedTable(
      'embedding.word_embeddings.weight',
      { name: 'embeddings.word_embeddings.weight', shape: [vocabularySize, h] },
      paddedVocabularySize(model),
    ),
    ...(numPositions > 0 ? [table('position_embeddings', 'position_embeddings', numPositions)] : []),
    table('tokentype_embeddings', 'token_type_embeddings', model.tokenTypeVocabularySize),
    ...norm('embedding.layernorm', 'embeddings.LayerNorm', h),
    ...Array.from({ length: model.numLayers }, (_, layer) => layerMappings(layer, model)).flat(),
  ];
}

/**
 * Returns the mappings for the BERT and the RoFormer of the transformers library. The names have no prefix
 * `bert.` or `roformer.`; the names of head weights begin with `cls.`.
 */
function bertWeightMappings(model: BertModelConfiguration): WeightMapping[] {
  const { hiddenSize: h, vocabularySize } = model;
  return [
    ...encoderMappings(model),
    ...dense('lm_head.dense', 'cls.predictions.transform.dense', [h, h]),
    ...norm('lm_head.layer_norm', 'cls.predictions.transform.LayerNorm', h),
    paddedTable(
      'output_layer.bias',
      { name: 'cls.predictions.bias', shape: [vocabularySize] },
      paddedVocabularySize(model),
    ),
    ...(model.sentenceOrderHead
      ? [...poolerMappings(model), ...dense('binary_head', 'cls.seq_relationship', [2, h])]
      : []),
  ];
}

/**
 * Returns the name and shape of a task's output layer: `name` is our name, and `source` the name in
 * transformers.
 */
export function taskHeadTensor(task: BertTask, { hiddenSize }: BertModelConfiguration) {
  switch (task.kind) {
    case 'classification':
      return {
        name: 'classification_head',
        source: 'classifier',
        shape: [task.numClasses, hiddenSize],
      } as const;
    case 'multiple-choice':
      return { name: 'multichoice_head', source: 'classifier', shape: [1, hiddenSize] } as const;
    case 'span':
      return { name: 'span_head', source: 'qa_outputs', shape: [2, hiddenSize] } as const;
  }
}

// matches the heads that other classes of the transformers library add to the encoder
const otherHeads = /^cls\.|^(classifier|qa_outputs|pooler\.dense)\.(weight|bias)$/;

/**
 * Returns the weight names of a BERT for fine-tuning: all names of the encoder, and the names of the pooler
 * and the task head if `has` states that the files contain them.
 */
export function bertTaskWeightNames(
  model: BertModelConfiguration,
  {
    task,
    has,
  }: { readonly task: BertTask; readonly has: { readonly pooler: boolean; readonly head: boolean } },
): WeightNames {
  const { name, source, shape } = taskHeadTensor(task, model);
  return {
    mappings: [
      ...encoderMappings(model),
      ...(has.pooler ? poolerMappings(model) : []),
      ...(has.head ? dense(name, source, shape) : []),
    ],
    prefix: choosePrefix(model),
    isIgnored: (tensor) => ignored.test(tensor) || otherHeads.test(tensor),
    canonical,
  };
}

const choosePrefix = (model: BertModelConfiguration): string => `${chooseBertType(model)}.`;

/** Returns a tensor's current name. Early files named the layer norm parameters `gamma` and `beta`. */
const canonical = (name: string): string =>
  name.replace(/LayerNorm\.gamma$/, 'LayerNorm.weight').replace(/LayerNorm\.beta$/, 'LayerNorm.bias');

/**
 * Returns the embedding's name in the mappings, and how names in files are converted to names in the
 * mappings.
 */
export const bertEmbedding = (model: BertModelConfiguration) => ({
  embedding: 'embeddings.word_embeddings.weight',
  naming: { prefix: choosePrefix(model), canonical },
});

// matches the names of ignored tensors: the tied decoder, the angles that a RoFormer computes itself, buffers
// of older versions, and heads that a model without sentence order does not have
const ignored =
  /^cls\.predictions\.decoder\.(weight|bias)$|^encoder\.embed_positions\.weight$|^embeddings\.position_ids$/;
const orderHead = /^(pooler\.dense|cls\.seq_relationship)\.(weight|bias)$/;

/** Returns the weight names in BERT and RoFormer files. */
export function bertWeightNames(model: BertModelConfiguration): WeightNames {
  return {
    mappings: bertWeightMappings(model),
    prefix: choosePrefix(model),
    isIgnored: (name) => ignored.test(name) || (!model.sentenceOrderHead && orderHead.test(name)),
    canonical,
  };
}

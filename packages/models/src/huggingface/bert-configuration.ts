import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import { checkSupported } from './check-supported.js';
import { geluKindOf } from './gelu-kinds.js';
import type { JsonFields } from './json-fields.js';

/** Fields that transformers reads as true or false, or as a name, must be so. */
const typed = {
  is_decoder: 'true or false',
  add_cross_attention: 'true or false',
  tie_word_embeddings: 'true or false',
  position_embedding_type: 'a string',
} as const;

function checkArchitecture(fields: JsonFields): void {
  for (const [name, kind] of Object.entries(typed)) fields.optional<unknown>(name, kind, undefined);
  checkSupported(fields, { wanted: 'bert' });
}

/**
 * The architecture that a BERT config.json describes. Sizes must be there; what transformers has defaults
 * for, has the same ones here.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function parseBertConfiguration(
  fields: JsonFields,
  ours: Pick<BertModelConfiguration, 'makeVocabularySizeDivisibleBy' | 'sentenceOrderHead'>,
): BertModelConfiguration {
  checkArchitecture(fields);
  const size = (name: string): number => fields.required(name, 'a positive integer');
  const hiddenSize = size('hidden_size');
  const numAttentionHeads = size('num_attention_heads');
  if (hiddenSize % numAttentionHeads !== 0) {
    throw fields.refuse('num_attention_heads', `a divisor of ${hiddenSize}`);
  }
  const layerNormEpsilon = fields.optional('layer_norm_eps', 'a number', 1e-12);
  if (layerNormEpsilon <= 0) throw fields.refuse('layer_norm_eps', 'a number above 0');
  const initMethodStd = fields.optional('initializer_range', 'a number', 0.02);
  if (initMethodStd < 0) throw fields.refuse('initializer_range', 'a number, 0 or more');
  return {
    ...ours,
    numLayers: size('num_hidden_layers'),
    hiddenSize,
    ffnHiddenSize: size('intermediate_size'),
    numAttentionHeads,
    maxPositionEmbeddings: size('max_position_embeddings'),
    vocabularySize: size('vocab_size'),
    tokenTypeVocabularySize: fields.optional('type_vocab_size', 'a positive integer', 2),
    layerNormPlacement: 'post',
    layerNormEpsilon,
    geluKind: geluKindOf(fields, { name: 'hidden_act', otherwise: 'gelu' }),
    hiddenDropout: fields.probability('hidden_dropout_prob', 0.1),
    attentionDropout: fields.probability('attention_probs_dropout_prob', 0.1),
    initMethodStd,
  };
}

/** What config.json states about the class of transformers that a BERT is loaded as. */
export interface BertArchitecture {
  readonly className: string;
  /** What the classes of a classification are called, in order. */
  readonly labels?: readonly string[] | undefined;
}

/** The fields of config.json of a BERT. */
export function encodeBertConfiguration(
  model: BertModelConfiguration,
  { dtype, paddingToken, className, labels }: BertArchitecture & { dtype: string; paddingToken: number },
): Record<string, unknown> {
  return {
    architectures: [className],
    attention_probs_dropout_prob: model.attentionDropout,
    dtype,
    hidden_act: model.geluKind === 'tanh' ? 'gelu_new' : 'gelu',
    hidden_dropout_prob: model.hiddenDropout,
    hidden_size: model.hiddenSize,
    ...(labels === undefined ? {} : labelFields(labels)),
    initializer_range: model.initMethodStd,
    intermediate_size: model.ffnHiddenSize,
    layer_norm_eps: model.layerNormEpsilon,
    max_position_embeddings: model.maxPositionEmbeddings,
    model_type: 'bert',
    num_attention_heads: model.numAttentionHeads,
    num_hidden_layers: model.numLayers,
    pad_token_id: paddingToken,
    tie_word_embeddings: true,
    // the name of `dtype` before transformers 4.56
    torch_dtype: dtype,
    type_vocab_size: model.tokenTypeVocabularySize,
    vocab_size: model.vocabularySize,
  };
}

/** The number of labels follows from these in transformers. */
const labelFields = (labels: readonly string[]) => ({
  id2label: Object.fromEntries(labels.map((label, index) => [index, label])),
  label2id: Object.fromEntries(labels.map((label, index) => [label, index])),
});

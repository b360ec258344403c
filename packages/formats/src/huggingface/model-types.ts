import { type ConfigField, checkedNumber, geluField, size, truth } from './config-fields.js';
import { mixtralExperts, olmoeExperts, qwen2Experts, qwenExperts, widthOfExperts } from './expert-fields.js';
import {
  gatedActivation,
  headSize,
  keyValueHeads,
  llamaBiases,
  noAttentionBiases,
  qkvBiases,
  usualHeadSize,
} from './llama-fields.js';
import { listRopeFields } from './rope-fields.js';
import {
  mistralWindow,
  mixtralWindow,
  noRopeLayers,
  qwen2MoeWindows,
  qwen3MoeWindow,
  qwenWindows,
  smolLm3Windows,
} from './window-fields.js';

/** The kinds of supported models. Each model type of the transformers library belongs to one kind. */
export type HuggingFaceModelKind = 'gpt' | 'bert';

/** Describes the models that have a certain `model_type` in the transformers library. */
export interface ModelType {
  readonly kind: HuggingFaceModelKind;
  /** The name of the `transformers` class that consists of this model and its pretraining heads. */
  readonly className: string;
  /** A name for such models in messages. */
  readonly name: string;
  /**
   * The programs that train such a model. Includes the options that describe the model if it is not loaded
   * from a directory.
   */
  readonly trainedWith: string;
  /** True if transformers.js does not know the cache shapes of this model type. Absent if it knows them. */
  readonly lacksOnnxCache?: true;
  /**
   * Fields of config.json for which this project's models have no corresponding property. If such a field is
   * present, its value must have the given type.
   */
  readonly typed: Readonly<Record<string, 'true or false' | 'a string'>>;
  /** The properties of a model in config.json, in the order in which they are read. */
  readonly fields: readonly ConfigField[];
  /** Properties that all models of this type have, but config.json does not state. */
  readonly fixed: Readonly<Record<string, unknown>>;
  /** Keys of the properties that follow from the names of the weights, and not from config.json. */
  readonly inWeights: readonly string[];
}

const epsilon = checkedNumber({ isValid: (value) => value > 0, expected: 'a number above 0' });
const deviation = checkedNumber({ isValid: (value) => value >= 0, expected: 'a number, 0 or more' });
const probability = checkedNumber({
  isValid: (value) => value >= 0 && value < 1,
  expected: 'a probability, 0 or more and below 1',
});
const heads = (names: readonly string[]): ConfigField => ({
  ...size('numAttentionHeads', names),
  check: (value, { hiddenSize }) =>
    (hiddenSize as number) % (value as number) === 0 ? undefined : `a divisor of ${hiddenSize as number}`,
});

/** Makes the fields for the sizes of a Llama or of a model derived from Llama. */
const llamaSizesWith = (ffnHiddenSize: ConfigField): readonly ConfigField[] => [
  ffnHiddenSize,
  size('numLayers', ['num_hidden_layers']),
  size('maxPositionEmbeddings', ['max_position_embeddings']),
  size('vocabularySize', ['vocab_size']),
];

const llamaSizes = llamaSizesWith(size('ffnHiddenSize', ['intermediate_size']));

/**
 * Makes the other fields that Llama and its derived models have in common.
 *
 * @param options the values if a file lacks a field. Default: an epsilon of 1e-6, a base of 10,000 and untied
 *   embeddings
 */
const listLlamaNumbers = ({
  normEpsilon = 1e-6,
  rotaryBase,
  tieEmbeddings = false,
}: {
  readonly normEpsilon?: number;
  readonly rotaryBase?: number;
  readonly tieEmbeddings?: boolean;
} = {}): readonly ConfigField[] => [
  gatedActivation,
  ...listRopeFields(rotaryBase === undefined ? {} : { defaultBase: rotaryBase }),
  epsilon('layerNormEpsilon', 'rms_norm_eps', normEpsilon),
  deviation('initMethodStd', 'initializer_range', 0.02),
  truth('tieEmbeddings', 'tie_word_embeddings', tieEmbeddings),
  probability('attentionDropout', 'attention_dropout', 0),
];

const llamaNumbers = listLlamaNumbers();

/**
 * The field that states which biases a StableLM has: either queries, keys and values have biases, or no layer
 * has any.
 */
const stableLmBiases: ConfigField = {
  ...truth('addQkvBias', 'use_qkv_bias', false),
  write: (value) => value ?? false,
};

/**
 * The field that states if a StableLM has norms of queries and keys. Models with such norms are not
 * supported.
 */
const noHeadNorms: ConfigField = {
  key: 'qkLayernorm',
  names: ['qk_layernorm'],
  read: (fields) => {
    if (!fields.optional('qk_layernorm', 'true or false', false)) return undefined;
    throw fields.unsupported('qk_layernorm', { needs: 'a norm for each head', expected: 'false' });
  },
  write: () => false,
};

/**
 * The properties that Llama and its derived models have in common. The field `swiglu` determines the
 * activation function.
 */
const llamaFixed = {
  normalization: 'RMSNorm',
  hiddenDropout: 0,
  geluKind: 'tanh',
} as const;

/** The fields that BERT and RoFormer have in common. */
const bertFields: readonly ConfigField[] = [
  size('hiddenSize', ['hidden_size']),
  heads(['num_attention_heads']),
  epsilon('layerNormEpsilon', 'layer_norm_eps', 1e-12),
  deviation('initMethodStd', 'initializer_range', 0.02),
  size('numLayers', ['num_hidden_layers']),
  size('ffnHiddenSize', ['intermediate_size']),
  size('maxPositionEmbeddings', ['max_position_embeddings']),
  size('vocabularySize', ['vocab_size']),
  size('tokenTypeVocabularySize', ['type_vocab_size'], () => 2),
  geluField('hidden_act', 'gelu'),
  probability('hiddenDropout', 'hidden_dropout_prob', 0.1),
  probability('attentionDropout', 'attention_probs_dropout_prob', 0.1),
];

/**
 * The fields for the position embeddings of a RoFormer (Su et al. 2021), which rotates pairs of neighbouring
 * features with the original frequencies. In all other respects, a RoFormer is the same as a BERT.
 */
const roformerFields: readonly ConfigField[] = [
  {
    key: 'positionEmbeddingType',
    names: ['rotary_value'],
    read: (fields) => {
      if (!fields.optional('rotary_value', 'true or false', false)) return 'rope';
      throw fields.unsupported('rotary_value', { needs: 'rotated values', expected: 'false' });
    },
    write: () => false,
  },
  {
    key: 'rotaryInterleaved',
    names: ['embedding_size'],
    read: (fields, { hiddenSize }) => {
      const size = fields.optional('embedding_size', 'a positive integer', hiddenSize as number);
      if (size === hiddenSize) return true;
      throw fields.unsupported('embedding_size', {
        needs: 'embeddings of another width',
        expected: `the hidden size, ${hiddenSize as number}`,
      });
    },
    write: (_, { hiddenSize }) => hiddenSize,
  },
];

const bertCommands = 'train it with bert-train or fine-tune it with mtl finetune, or pass a GPT-2 or a Llama';

const gptCommands = 'train it with gpt-train, or pass a BERT';

/**
 * The supported models of the transformers library, by `model_type`. Each model property is one entry: its
 * key in this project's configuration, its names in config.json (the first is used for writing), its valid
 * values, and its default in the transformers library.
 */
export const modelTypes = {
  gpt2: {
    kind: 'gpt',
    className: 'GPT2LMHeadModel',
    name: 'a GPT-2',
    trainedWith: gptCommands,
    typed: {
      scale_attn_weights: 'true or false',
      scale_attn_by_inverse_layer_idx: 'true or false',
      add_cross_attention: 'true or false',
    },
    fields: [
      size('hiddenSize', ['n_embd', 'hidden_size']),
      heads(['n_head', 'num_attention_heads']),
      geluField('activation_function', 'gelu_new'),
      epsilon('layerNormEpsilon', 'layer_norm_epsilon', 1e-5),
      deviation('initMethodStd', 'initializer_range', 0.02),
      { ...probability('hiddenDropout', 'resid_pdrop', 0.1), alsoWritten: ['embd_pdrop'] },
      size('numLayers', ['n_layer', 'num_hidden_layers']),
      size('ffnHiddenSize', ['n_inner'], ({ hiddenSize }) => 4 * (hiddenSize as number)),
      size('maxPositionEmbeddings', ['n_positions', 'max_position_embeddings']),
      size('vocabularySize', ['vocab_size']),
      truth('tieEmbeddings', 'tie_word_embeddings', true),
      probability('attentionDropout', 'attn_pdrop', 0.1),
    ],
    fixed: {},
    inWeights: [],
  },
  llama: {
    kind: 'gpt',
    className: 'LlamaForCausalLM',
    name: 'a Llama',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      heads(['num_attention_heads']),
      ...keyValueHeads(),
      headSize(),
      ...llamaSizes,
      llamaBiases,
      ...llamaNumbers,
    ],
    fixed: llamaFixed,
    inWeights: [],
  },
  mistral: {
    kind: 'gpt',
    className: 'MistralForCausalLM',
    name: 'a Mistral',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads({ otherwise: 8 }),
      headSize(),
      ...llamaSizes,
      mistralWindow,
      ...llamaNumbers,
    ],
    fixed: { ...llamaFixed, addBiasLinear: false },
    inWeights: [],
  },
  qwen2: {
    kind: 'gpt',
    className: 'Qwen2ForCausalLM',
    name: 'a Qwen2',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads({ otherwise: 32 }),
      headSize({ isRare: true }),
      ...llamaSizes,
      ...qwenWindows,
      ...llamaNumbers,
    ],
    fixed: { ...llamaFixed, addBiasLinear: false, addQkvBias: true },
    inWeights: [],
  },
  qwen3: {
    kind: 'gpt',
    className: 'Qwen3ForCausalLM',
    name: 'a Qwen3',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads({ otherwise: 32 }),
      headSize({ otherwise: 128 }),
      ...llamaSizes,
      noAttentionBiases,
      ...qwenWindows,
      ...llamaNumbers,
    ],
    fixed: { ...llamaFixed, qkLayernorm: true },
    inWeights: [],
  },
  smollm3: {
    kind: 'gpt',
    className: 'SmolLM3ForCausalLM',
    name: 'a SmolLM3',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      heads(['num_attention_heads']),
      ...keyValueHeads({ otherwise: 4 }),
      headSize({ isRare: true }),
      ...llamaSizes,
      llamaBiases,
      noRopeLayers,
      ...smolLm3Windows,
      ...listLlamaNumbers({ rotaryBase: 2e6, tieEmbeddings: true }),
    ],
    fixed: llamaFixed,
    inWeights: [],
  },
  stablelm: {
    kind: 'gpt',
    className: 'StableLmForCausalLM',
    name: 'a StableLM',
    trainedWith: gptCommands,
    lacksOnnxCache: true,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      heads(['num_attention_heads']),
      ...keyValueHeads({ otherwise: 32 }),
      usualHeadSize,
      ...llamaSizes,
      stableLmBiases,
      noHeadNorms,
      gatedActivation,
      ...listRopeFields({ defaultShare: 0.25 }),
      epsilon('layerNormEpsilon', 'layer_norm_eps', 1e-5),
      deviation('initMethodStd', 'initializer_range', 0.02),
      truth('tieEmbeddings', 'tie_word_embeddings', false),
      probability('attentionDropout', 'attention_dropout', 0),
      probability('hiddenDropout', 'hidden_dropout', 0),
    ],
    fixed: { normalization: 'LayerNorm', addBiasLinear: false, geluKind: 'tanh' },
    inWeights: [],
  },
  mixtral: {
    kind: 'gpt',
    className: 'MixtralForCausalLM',
    name: 'a Mixtral',
    trainedWith: gptCommands,
    lacksOnnxCache: true,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads({ otherwise: 8 }),
      headSize(),
      ...llamaSizesWith(widthOfExperts),
      mixtralWindow,
      ...mixtralExperts,
      ...listLlamaNumbers({ normEpsilon: 1e-5, rotaryBase: 1e6 }),
    ],
    fixed: { ...llamaFixed, addBiasLinear: false },
    inWeights: [],
  },
  qwen3_moe: {
    kind: 'gpt',
    className: 'Qwen3MoeForCausalLM',
    name: 'a Qwen3-MoE',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads({ otherwise: 4 }),
      headSize(),
      ...llamaSizes,
      noAttentionBiases,
      qwen3MoeWindow,
      ...qwenExperts,
      ...llamaNumbers,
    ],
    fixed: { ...llamaFixed, qkLayernorm: true },
    inWeights: [],
  },
  olmoe: {
    kind: 'gpt',
    className: 'OlmoeForCausalLM',
    name: 'an OLMoE',
    trainedWith: gptCommands,
    lacksOnnxCache: true,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads(),
      usualHeadSize,
      ...llamaSizesWith(widthOfExperts),
      noAttentionBiases,
      ...olmoeExperts,
      ...listLlamaNumbers({ normEpsilon: 1e-5 }),
    ],
    fixed: { ...llamaFixed, qkLayernorm: true, qkNormWholeWidth: true },
    inWeights: [],
  },
  qwen2_moe: {
    kind: 'gpt',
    className: 'Qwen2MoeForCausalLM',
    name: 'a Qwen2-MoE',
    trainedWith: gptCommands,
    typed: {},
    fields: [
      size('hiddenSize', ['hidden_size']),
      size('numAttentionHeads', ['num_attention_heads']),
      ...keyValueHeads({ otherwise: 16 }),
      headSize({ isRare: true }),
      ...llamaSizes,
      qkvBiases,
      ...qwen2MoeWindows,
      ...qwen2Experts,
      ...llamaNumbers,
    ],
    fixed: { ...llamaFixed, addBiasLinear: false, moeSharedExpertGate: true },
    inWeights: [],
  },
  bert: {
    kind: 'bert',
    className: 'BertForPreTraining',
    name: 'a BERT',
    trainedWith: bertCommands,
    typed: {
      is_decoder: 'true or false',
      add_cross_attention: 'true or false',
      tie_word_embeddings: 'true or false',
      position_embedding_type: 'a string',
    },
    fields: bertFields,
    fixed: { layerNormPlacement: 'post' },
    inWeights: ['sentenceOrderHead'],
  },
  roformer: {
    kind: 'bert',
    className: 'RoFormerForMaskedLM',
    name: 'a RoFormer',
    trainedWith: bertCommands,
    typed: {
      is_decoder: 'true or false',
      add_cross_attention: 'true or false',
      tie_word_embeddings: 'true or false',
    },
    fields: [...bertFields, ...roformerFields],
    // a RoFormer has no pooler either
    fixed: { layerNormPlacement: 'post', sentenceOrderHead: false },
    inWeights: [],
  },
} as const satisfies Readonly<Record<string, ModelType>>;

export type ModelTypeName = keyof typeof modelTypes;

/** The types of causal language models. */
export type GptTypeName = Exclude<ModelTypeName, BertTypeName>;

/** The model types with bidirectional attention. */
export type BertTypeName = 'bert' | 'roformer';

/** Returns the model types of the given kind. If several can describe a model, the first one is preferred. */
export const listModelTypes = (kind: HuggingFaceModelKind): readonly ModelTypeName[] =>
  (Object.keys(modelTypes) as ModelTypeName[]).filter((name) => modelTypes[name].kind === kind);

/** Returns the description of the given `model_type`; undefined if the type is not supported. */
export const findModelType = (name: string): ModelType | undefined =>
  Object.hasOwn(modelTypes, name) ? modelTypes[name as ModelTypeName] : undefined;

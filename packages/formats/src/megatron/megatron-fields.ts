import { hasRotaryPositions, type PositionEmbeddingType } from '@mtl/models';
import {
  type ConfigField,
  checkedNumber,
  type KnownProperties,
  size,
  truth,
} from '../huggingface/config-fields.js';
import type { JsonFields } from '../huggingface/json-fields.js';
import { expertFields } from './megatron-expert-fields.js';
import type { LayersName } from './megatron-names.js';

/** The kinds of Megatron-LM models that can be read and written. */
export type MegatronModelKind = 'gpt' | 'bert';

/** Describes the Megatron-LM models of a kind. */
interface MegatronModelType {
  readonly layers: LayersName;
  /** The model's properties in the args, in the order in which they are read. */
  readonly fields: readonly ConfigField[];
  /** The properties that all models of this kind have, with their values. */
  readonly fixed: Readonly<Record<string, unknown>>;
  /**
   * The args that are written with the same value for every model, because our models have no corresponding
   * property.
   */
  readonly alwaysStated: Readonly<Record<string, unknown>>;
}

const probability = checkedNumber({
  isValid: (value) => value >= 0 && value < 1,
  expected: 'a probability, 0 or more and below 1',
});
const notNegative = checkedNumber({ isValid: (value) => value >= 0, expected: 'a number, 0 or more' });
const positive = checkedNumber({ isValid: (value) => value > 0, expected: 'a number above 0' });
const share = checkedNumber({
  isValid: (value) => value > 0 && value <= 1,
  expected: 'a number above 0, at most 1',
});

/**
 * The field for the vocabulary size without padding rows. If the args lack it, padding rows count as tokens,
 * as in Megatron-LM's softmax.
 */
const vocabulary: ConfigField = {
  key: 'vocabularySize',
  names: ['vocab_size', 'padded_vocab_size'],
  read: (fields) => fields.required(['vocab_size', 'padded_vocab_size'], 'a positive integer'),
};

/**
 * The field for the kind of GELU: tanh if the args select the fused kernel or OpenAI's formula, else the
 * error function.
 */
const geluKind: ConfigField = {
  key: 'geluKind',
  names: ['bias_gelu_fusion'],
  read: (fields) => {
    const isFused = isTrue(fields, 'bias_gelu_fusion', true) && isTrue(fields, 'add_bias_linear', true);
    return isFused || isTrue(fields, 'openai_gelu', false) ? 'tanh' : 'erf';
  },
  write: (kind, { addBiasLinear = true }) => kind === 'tanh' && addBiasLinear,
  writeOthers: (kind, { addBiasLinear = true }) => ({ openai_gelu: kind === 'tanh' && !addBiasLinear }),
};

const isTrue = (fields: JsonFields, name: string, otherwise: boolean): boolean =>
  fields.optional(name, 'true or false', otherwise);

/** The largest plausible number of padding rows in a vocabulary. A larger number in the args is an error. */
const mostPadding = 2 ** 20;

const commonFields: readonly ConfigField[] = [
  size('hiddenSize', ['hidden_size']),
  size('numLayers', ['num_layers']),
  size('numAttentionHeads', ['num_attention_heads']),
  size('ffnHiddenSize', ['ffn_hidden_size'], ({ hiddenSize }) => 4 * (hiddenSize as number)),
  size('maxPositionEmbeddings', ['max_position_embeddings', 'seq_length']),
  vocabulary,
  {
    ...size('makeVocabularySizeDivisibleBy', ['make_vocab_size_divisible_by'], () => 128),
    check: (value) => ((value as number) <= mostPadding ? undefined : `at most ${mostPadding}`),
  },
  {
    ...positive('layerNormEpsilon', 'norm_epsilon', 1e-5),
    names: ['norm_epsilon', 'layernorm_epsilon'],
    read: (fields) => fields.optional(['norm_epsilon', 'layernorm_epsilon'], 'a number', 1e-5),
  },
  notNegative('initMethodStd', 'init_method_std', 0.02),
  probability('hiddenDropout', 'hidden_dropout', 0.1),
  probability('attentionDropout', 'attention_dropout', 0.1),
];

const headSize: ConfigField = {
  key: 'kvChannels',
  names: ['kv_channels'],
  read: (fields, { hiddenSize, numAttentionHeads }) => {
    const otherwise = (hiddenSize as number) / (numAttentionHeads as number);
    const value = fields.optional('kv_channels', 'a positive integer', otherwise);
    if (Number.isInteger(value)) return value;
    throw fields.refuse('num_attention_heads', `a divisor of ${hiddenSize as number}`);
  },
  write: (value, { hiddenSize, numAttentionHeads }) =>
    value ?? (hiddenSize as number) / (numAttentionHeads as number),
};

const queryGroups: ConfigField = {
  key: 'numQueryGroups',
  names: ['num_query_groups'],
  read: (fields, { groupQueryAttention, numAttentionHeads }) =>
    groupQueryAttention === true
      ? fields.optional('num_query_groups', 'a positive integer', 1)
      : (numAttentionHeads as number),
  check: (value, { numAttentionHeads }) =>
    (numAttentionHeads as number) % (value as number) === 0
      ? undefined
      : `a divisor of ${numAttentionHeads as number}`,
  write: (value, { groupQueryAttention }) => (groupQueryAttention === true ? (value ?? 1) : 1),
};

/** Makes the field for a switch. If the args lack it, the switch is off. */
const whereTrue = (key: string, name: string): ConfigField => ({
  ...truth(key, name, false),
  write: (value) => value ?? false,
});

const normalization: ConfigField = {
  key: 'normalization',
  names: ['normalization'],
  read: (fields) => {
    const kind = fields.optional('normalization', 'a string', 'LayerNorm');
    if (kind === 'LayerNorm' || kind === 'RMSNorm') return kind;
    throw fields.unsupported('normalization', { needs: 'those norms', expected: 'LayerNorm or RMSNorm' });
  },
  write: (kind) => kind ?? 'LayerNorm',
};

/**
 * The field for the attention window: a list of two values, which are how many positions before and after the
 * query the window contains.
 */
const windowSize: ConfigField = {
  key: 'windowSize',
  names: ['window_size'],
  read: (fields) => {
    const window = fields.values.window_size;
    if (window === undefined || window === null) return undefined;
    const [before, after] = Array.isArray(window) ? (window as number[]) : [];
    if (before === -1 && (after === 0 || after === -1)) return undefined;
    if (Number.isSafeInteger(before) && before! >= 0 && after === 0) return `${before},0`;
    throw fields.unsupported('window_size', { needs: 'that window', expected: '(L, 0) or null' });
  },
  write: (value) => (value === undefined ? undefined : [Number.parseInt(value as string, 10), 0]),
};

/**
 * Makes the field for a set of layers: a number N for every Nth layer, or a list with 0 or 1 for each layer.
 */
const layerList = (key: string, name: string): ConfigField => ({
  key,
  names: [name],
  read: (fields, { numLayers }) => {
    const value = fields.values[name] ?? undefined;
    if (value === undefined || (Number.isSafeInteger(value) && (value as number) > 0)) return value;
    const isList = Array.isArray(value) && value.length === numLayers && value.every(isZeroOrOne);
    if (isList) return value as readonly number[];
    throw fields.refuse(name, `a positive integer, or 0 or 1 for each of ${numLayers as number} layers`);
  },
});

const isZeroOrOne = (value: unknown): boolean => value === 0 || value === 1;

/** The field that states which layers have a window. It has no effect in models without a window. */
const windowLayers: ConfigField = {
  ...layerList('windowAttnSkipFreq', 'window_attn_skip_freq'),
  read: (fields, known) =>
    known.windowSize === undefined
      ? undefined
      : layerList('windowAttnSkipFreq', 'window_attn_skip_freq').read(fields, known),
};

/** The field for attention sinks. */
const softmaxType: ConfigField = {
  key: 'softmaxType',
  names: ['softmax_type'],
  read: (fields) => {
    const type: string = fields.optional('softmax_type', 'a string', 'vanilla');
    if (type === 'vanilla') return undefined;
    if (type === 'off-by-one' || type === 'learnable') return type;
    throw fields.unsupported('softmax_type', {
      needs: 'that softmax',
      expected: 'vanilla, off-by-one or learnable',
    });
  },
};

const positionTypes = {
  gpt: ['learned_absolute', 'rope', 'yarn', 'none'],
  bert: ['learned_absolute', 'rope'],
} as const;

const positionEmbeddingType = (kind: keyof typeof positionTypes): ConfigField => ({
  key: 'positionEmbeddingType',
  names: ['position_embedding_type'],
  read: (fields) => {
    const isRotary = fields.optional('use_rotary_position_embeddings', 'true or false', false);
    const otherwise = isRotary ? 'rope' : 'learned_absolute';
    const type: string = fields.optional('position_embedding_type', 'a string', otherwise);
    const types: readonly string[] = positionTypes[kind];
    if (types.includes(type)) return type;
    throw fields.unsupported('position_embedding_type', {
      needs: 'those positions',
      expected: types.join(', '),
    });
  },
  write: (type) => type ?? 'learned_absolute',
  writeOthers: (type) => ({ add_position_embedding: (type ?? 'learned_absolute') === 'learned_absolute' }),
});

/** Restricts a field to models whose position embeddings satisfy `has`. */
const onlyWith =
  (has: (type: PositionEmbeddingType | undefined) => boolean) =>
  (field: ConfigField): ConfigField => ({
    ...field,
    read: (fields, known) =>
      has(known.positionEmbeddingType as PositionEmbeddingType) ? field.read(fields, known) : undefined,
    check: (value, known) => (value === undefined ? undefined : field.check?.(value, known)),
  });

const onlyRotary = onlyWith(hasRotaryPositions);
const onlyYarn = onlyWith((type) => type === 'yarn');

/**
 * In models with YaRN, restricts a property to the value `usual`, because Megatron-LM does not support its
 * other values together with YaRN.
 */
const notOfYarn = (field: ConfigField, usual: unknown): ConfigField => ({
  ...field,
  read: (fields, known) => {
    const value = field.read(fields, known);
    if (known.positionEmbeddingType !== 'yarn' || value === usual) return value;
    const [name = ''] = field.names;
    throw fields.unsupported(name, {
      needs: 'yarn in another form than halves of whole heads',
      expected: `${name} ${String(usual)} with yarn`,
    });
  },
});

/** The fields of YaRN. If a number is missing or None, Megatron-LM's default applies. */
const yarnFields: readonly ConfigField[] = [
  positive('rotaryScalingFactor', 'rotary_scaling_factor', 1),
  size('yarnOriginalMaxPositionEmbeddings', ['yarn_original_max_position_embeddings'], () => 4096),
  positive('yarnBetaFast', 'yarn_beta_fast', 32),
  positive('yarnBetaSlow', 'yarn_beta_slow', 1),
  truth('yarnCorrectionRangeRoundToInt', 'yarn_correction_range_round_to_int', true),
  notNegative('mscale', 'mscale', 1),
  notNegative('mscaleAllDim', 'mscale_all_dim', 0),
];

/** Returns the fields that describe the position embeddings of the given kind of model. */
export const listPositionFields = (kind: keyof typeof positionTypes): readonly ConfigField[] => [
  positionEmbeddingType(kind),
  onlyRotary(positive('rotaryBase', 'rotary_base', 10_000)),
  onlyRotary(notOfYarn(share('rotaryPercent', 'rotary_percent', 1), 1)),
  onlyRotary(notOfYarn(truth('rotaryInterleaved', 'rotary_interleaved', false), false)),
  onlyRotary(positive('rotarySeqLenInterpolationFactor', 'rotary_seq_len_interpolation_factor', 1)),
  onlyRotary(truth('useRopeScaling', 'use_rope_scaling', false)),
  onlyRotary(positive('ropeScalingFactor', 'rope_scaling_factor', 8)),
  ...(kind === 'gpt' ? yarnFields.map(onlyYarn) : []),
];

const gptFields: readonly ConfigField[] = [
  ...commonFields,
  headSize,
  whereTrue('groupQueryAttention', 'group_query_attention'),
  queryGroups,
  windowSize,
  windowLayers,
  softmaxType,
  ...listPositionFields('gpt'),
  onlyRotary(layerList('noRopeFreq', 'no_rope_freq')),
  normalization,
  whereTrue('swiglu', 'swiglu'),
  whereTrue('squaredRelu', 'squared_relu'),
  whereTrue('qkLayernorm', 'qk_layernorm'),
  { ...truth('addBiasLinear', 'add_bias_linear', true), write: (value) => value ?? true },
  whereTrue('addQkvBias', 'add_qkv_bias'),
  {
    key: 'tieEmbeddings',
    names: ['untie_embeddings_and_output_weights'],
    read: (fields) => !isTrue(fields, 'untie_embeddings_and_output_weights', false),
    write: (value) => !(value as boolean),
  },
  {
    ...geluKind,
    // if the activation is not GELU, the kind of GELU has no effect, so it has its default value
    read: (fields, known) =>
      known.swiglu === true || known.squaredRelu === true ? 'tanh' : geluKind.read(fields, known),
  },
  ...expertFields,
];

/** The properties that are not written, because Megatron-LM's args have no supported field for them. */
export const unwrittenProperties: readonly string[] = [
  'qkNormWholeWidth',
  'quickGeglu',
  'gluLinearOffset',
  'activationFuncClampValue',
  'modelBlocks',
  'ropeScalingOriginalMaxPositionEmbeddings',
  'ropeScalingLowFreqFactor',
  'ropeScalingHighFreqFactor',
  'yarnAttentionFactor',
  'attnLogitSoftcapping',
  'finalLogitSoftcapping',
];

const bertFields: readonly ConfigField[] = [
  ...commonFields,
  ...listPositionFields('bert'),
  geluKind,
  truth('sentenceOrderHead', 'bert_binary_head', true),
];

/**
 * The kinds of Megatron-LM models. Each model property is one entry, which serves both reading and writing.
 */
export const megatronModelTypes: Readonly<Record<MegatronModelKind, MegatronModelType>> = {
  gpt: { layers: 'decoder', fields: gptFields, fixed: {}, alwaysStated: {} },
  bert: {
    layers: 'encoder',
    fields: bertFields,
    // in Megatron-LM's BERT, layer norms precede the sublayers (see Shoeybi et al. 2019, figure 7b)
    fixed: { layerNormPlacement: 'pre', tokenTypeVocabularySize: 2 },
    alwaysStated: {
      add_bias_linear: true,
      normalization: 'LayerNorm',
      swiglu: false,
      untie_embeddings_and_output_weights: false,
    },
  },
};

/** Returns true if the stored layer norm weights are the weights minus 1. */
export const hasNormsLessOne = (fields: JsonFields): boolean => isTrue(fields, 'apply_layernorm_1p', false);

/**
 * The args that can request unsupported features, with the values that do not request them. A missing value,
 * null and false never request a feature.
 */
const unsupportedArguments: ReadonlyArray<
  readonly [name: string, needs: string, ...valid: readonly unknown[]]
> = [
  ['multi_latent_attention', 'multi-latent attention'],
  ['experimental_attention_variant', 'another attention'],
  ['mtp_num_layers', 'layers for multi-token prediction', 0],
  ['hybrid_override_pattern', 'layers of several kinds'],
  ['hybrid_layer_pattern', 'layers of several kinds'],
  ['is_hybrid_model', 'layers of several kinds'],
  ['heterogeneous_layers_config_path', 'layers of several kinds'],
  ['heterogeneous_layers_config_encoded_json', 'layers of several kinds'],
  ['apply_residual_connection_post_layernorm', 'residual connections after norms'],
  ['qk_l2_norm', 'L2 norms of queries and keys'],
  ['attention_output_gate', 'gated attention'],
  ['quick_geglu', 'another activation'],
  ['geglu', 'another activation'],
  ['reglu', 'another activation'],
  ['glu_linear_offset', 'another activation', 0],
  ['activation_func_clamp_value', 'another activation'],
  ['moe_latent_size', 'experts of a narrower input'],
  ['moe_apply_probs_on_input', 'weights that multiply the inputs of experts'],
  ['moe_mlp_glu_interleave_size', 'interleaved rows of experts'],
  ['use_mup', 'scaled activations'],
  ['attn_logit_softcapping', 'soft caps of scores'],
  ['final_logit_softcapping', 'soft caps of logits'],
];

/**
 * Rejects a model that needs an unsupported feature.
 *
 * @throws CheckpointError MTL_MEGATRON_ARGUMENTS, which names the feature
 */
export function checkMegatronFeatures(fields: JsonFields): void {
  for (const [name, needs, ...valid] of unsupportedArguments) {
    const value = fields.values[name];
    if (value === undefined || value === null || value === false || valid.includes(value)) continue;
    const expected = `${name} ${valid.length === 0 ? 'None or False' : String(valid[0])}`;
    throw fields.unsupported(name, { needs, expected });
  }
}

/** Returns the properties that are not undefined. */
export const statedProperties = (properties: KnownProperties): KnownProperties =>
  Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== undefined));

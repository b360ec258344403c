import { CheckpointError } from '@mtl/errors';
import type { JsonFields } from './json-fields.js';
import { findModelType, type HuggingFaceModelKind, listModelTypes, modelTypes } from './model-types.js';

/**
 * Unsupported features that all models of a certain model type need. config.json may have no field for such a
 * feature.
 */
const needsOfTypes: Readonly<Record<string, string>> = {
  albert: 'weights that all layers share, and embeddings of another width',
  bloom: 'ALiBi position biases',
  camembert: 'positions that begin after the padding token, and no token types',
  cohere: 'LayerNorm without biases, attention next to the feed-forward layer, and a scale of logits',
  deepseek_v2: 'latent attention and a mixture of experts',
  deepseek_v3: 'latent attention and a mixture of experts',
  'deberta-v2': 'disentangled attention over relative positions',
  distilbert: 'layers without token types and pooler',
  electra: 'a discriminator and a generator',
  falcon: 'attention next to the feed-forward layer',
  gemma: 'feed-forward layers gated by GELU, scaled embeddings, and norms whose weights are stored less 1',
  gemma2: 'norms after sublayers, soft caps of logits and windows in every other layer',
  gemma3_text: 'norms after sublayers and windows in some layers',
  gpt_neo: 'local attention in every other layer',
  gpt_neox: 'attention next to the feed-forward layer',
  gpt_oss: 'attention sinks and a mixture of experts',
  granite: 'scales of embeddings, residuals, attention and logits',
  gptj: 'attention next to the feed-forward layer',
  llama4_text: 'layers without positions and a mixture of experts',
  mamba: 'state-space layers',
  mpt: 'ALiBi position biases',
  olmo2: 'norms after sublayers, and norms of queries and keys over all heads',
  opt: 'ReLU, and positions that begin at 2',
  phi: 'attention next to the feed-forward layer',
  phi3: 'a reader for its fused projections, and with long texts the rope type longrope',
  roberta: 'positions that begin after the padding token, and no token types',
  t5: 'an encoder with a decoder, and relative position biases',
};

type Values = Readonly<Record<string, unknown>>;

/** An unsupported feature that a model needs. */
interface UnsupportedFeature {
  readonly what: string;
  /** The config.json field that requests the feature; undefined if the `model_type` implies the feature. */
  readonly field?: string;
  /** The field's value with which the model would be supported. */
  readonly expected?: string;
}

interface Feature {
  readonly what: string;
  readonly fields: readonly string[];
  /**
   * Returns true if a field's value requests the feature. null and false never request it. Default: every
   * other value requests it.
   */
  readonly asks?: (value: unknown, values: Values) => boolean;
  /**
   * A value of the field that does not request the feature. Default: `false`; a missing field does not
   * request it either.
   */
  readonly expected?: string;
  /**
   * True if at least one supported model type has the feature. A GPT-2 or BERT that requests the feature is
   * then rejected because of the feature, but a model of unknown type because of its type. Default: false.
   */
  readonly isKnown?: true;
}

const isBert = ({ model_type: type }: Values): boolean => type === 'bert' || type === 'roformer';
const countHeads = (values: Values): number => Number(values.num_attention_heads ?? values.n_head);
const readHiddenSize = (values: Values): number => Number(values.hidden_size ?? values.n_embd);

const features: readonly Feature[] = [
  {
    what: 'rotary position embeddings',
    fields: ['rope_theta', 'rope_scaling', 'rope_parameters', 'rotary_dim', 'rotary_pct', 'rotary_emb_base'],
    isKnown: true,
  },
  {
    what: 'rotary position embeddings of a part of each head',
    fields: ['partial_rotary_factor'],
    asks: (value) => value !== 1,
    expected: '1',
    isKnown: true,
  },
  {
    what: 'noise in the input of the router',
    fields: ['router_jitter_noise'],
    asks: (value) => value !== 0,
    expected: '0',
  },
  { what: 'layers without positions', fields: ['no_rope_layers', 'no_rope_layer_interval'], isKnown: true },
  { what: 'soft caps of logits', fields: ['attn_logit_softcapping', 'final_logit_softcapping'] },
  {
    what: 'a scale of embeddings, residuals, attention or logits',
    fields: [
      ...['embedding_multiplier', 'residual_multiplier', 'attention_multiplier', 'logits_scaling'],
      ...['logit_scale', 'scale_emb', 'scale_depth'],
    ],
    asks: (value) => value !== 1,
    expected: '1',
  },
  { what: 'clipped queries, keys and values', fields: ['clip_qkv'] },
  { what: 'ALiBi position biases', fields: ['alibi'] },
  { what: 'relative position biases', fields: ['relative_attention_num_buckets'] },
  {
    what: 'position embeddings of another type',
    fields: ['position_embedding_type'],
    asks: (value) => value !== 'absolute',
    expected: '"absolute"',
  },
  {
    what: 'grouped-query attention (fewer heads of keys and values)',
    fields: ['num_key_value_heads', 'num_kv_heads'],
    asks: (value, values) => value !== countHeads(values),
    expected: 'the number of attention heads',
    isKnown: true,
  },
  { what: 'multi-query attention', fields: ['multi_query'], isKnown: true },
  {
    what: 'heads of another size than hidden size / heads',
    fields: ['head_dim'],
    asks: (value, values) => value !== readHiddenSize(values) / countHeads(values),
    expected: 'hidden size / heads',
    isKnown: true,
  },
  { what: 'RMSNorm', fields: ['rms_norm_eps'], isKnown: true },
  { what: 'sliding-window attention', fields: ['sliding_window', 'window_size'], isKnown: true },
  { what: 'a mixture of experts', fields: ['num_experts', 'num_local_experts', 'n_routed_experts'] },
  { what: 'an encoder with a decoder', fields: ['is_encoder_decoder'] },
  { what: 'attention next to the feed-forward layer', fields: ['use_parallel_residual', 'parallel_attn'] },
  { what: 'quantized weights', fields: ['quantization_config'] },
  { what: 'images', fields: ['vision_config'] },
  { what: 'sound', fields: ['audio_config'] },
  { what: 'cross-attention', fields: ['add_cross_attention'] },
  { what: 'the attention of a decoder', fields: ['is_decoder'], asks: (_, values) => isBert(values) },
  { what: 'attention scaled by the number of its layer', fields: ['scale_attn_by_inverse_layer_idx'] },
];

/** The features that a model needs only if a switch is off. In supported models, the switch is on. */
const onSwitches: readonly Feature[] = [
  { what: 'attention without scaling', fields: ['scale_attn_weights'] },
  {
    what: 'an output layer with weights of its own',
    fields: ['tie_word_embeddings'],
    asks: (_, values) => isBert(values),
  },
];

/** The fields whose values are checked for every model type. */
export const checkedFields: readonly string[] = [...features, ...onSwitches].flatMap(({ fields }) => fields);

/**
 * Returns the unsupported features that a config.json requests; an empty list for a supported model.
 *
 * @param read the fields that are read and checked for the model's type; undefined for an unknown type
 */
function unsupportedFeatures(
  { values }: JsonFields,
  read: ReadonlySet<string> | undefined,
): readonly UnsupportedFeature[] {
  const type = String(values.model_type);
  const ofType = Object.hasOwn(needsOfTypes, type) ? [{ what: needsOfTypes[type]! }] : [];
  const reasons = features.filter(({ isKnown }) => read !== undefined || isKnown !== true);
  const asked = reasons.flatMap(({ what, fields, asks = () => true, expected = 'false' }) => {
    const field = fields.find((name) => {
      const value = values[name];
      if (read?.has(name) === true || value === undefined || value === null || value === false) return false;
      return asks(value, values);
    });
    return field === undefined ? [] : [{ what, field, expected }];
  });
  const turnedOff = onSwitches.flatMap(({ what, fields: [field], asks = () => true }) =>
    values[field!] === false && asks(false, values) ? [{ what, field: field!, expected: 'true' }] : [],
  );
  return [...ofType, ...asked, ...turnedOff];
}

const kindNames = { gpt: 'a GPT-2, a Llama or a model like them', bert: 'a BERT' } as const;

/**
 * Rejects an unsupported model. The error names the missing feature.
 *
 * @param options.wanted the required kind of model; default: any supported kind
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function checkSupported(
  fields: JsonFields,
  options: { readonly wanted?: HuggingFaceModelKind } = {},
): void {
  const { wanted } = options;
  const type = fields.required<string>('model_type', 'a string');
  const known = findModelType(type);
  const needs = unsupportedFeatures(fields, known && new Set(known.fields.flatMap(({ names }) => names)));
  for (const [name, kind] of Object.entries(known?.typed ?? {})) {
    fields.optional<unknown>(name, kind, undefined);
  }
  if (known === undefined || needs.length > 0) throw unsupported(fields, needs);
  if (wanted === undefined || wanted === known.kind) return;
  throw refused(`${fields.path} describes ${known.name}, where ${kindNames[wanted]} is wanted`, {
    expected: `model_type ${quoted(listModelTypes(wanted))}`,
    remedy: known.trainedWith,
  });
}

function unsupported({ path, values }: JsonFields, needs: readonly UnsupportedFeature[]): CheckpointError {
  const type = String(values.model_type);
  const reasons = needs.map(({ what, field }) =>
    field === undefined ? what : `${what} (${field} is ${JSON.stringify(values[field])})`,
  );
  const reason = reasons.length === 0 ? 'an architecture that is not here' : reasons.join('; ');
  const fixable = needs.flatMap(({ field, expected }) =>
    field === undefined ? [] : [`${field} ${expected}`],
  );
  const isKnown = findModelType(type) !== undefined;
  return refused(`${path}: model_type is "${type}", and this model is not supported: it needs ${reason}`, {
    expected: isKnown ? fixable.join(', ') : `model_type ${quoted(Object.keys(modelTypes))}`,
    remedy: 'choose another model: this one is not supported',
  });
}

const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(' or ');

function refused(
  message: string,
  { expected, remedy }: { readonly expected: string; readonly remedy: string },
): CheckpointError {
  return new CheckpointError('MTL_HUGGING_FACE_CONFIG', message, { expected, remedy, exitCode: 2 });
}

/**
 * Matches the fields that do not change any model's computation: fields about files, tokens, generation,
 * other heads and older names, and the coefficient of the load-balancing loss, which each run sets itself.
 */
const harmless =
  /^(_|model_type$|architectures$|auto_map$|transformers|(torch_)?dtype$|.*_token(_id)?$|use_cache$|n_ctx$|pretraining_tp$)|^(is_llama_config|rope_interleaved|unsloth|task_specific_params|summary_|output_|return_dict|torchscript|(id2label|label2id)$|num_labels$|problem_type$|gradient_checkpointing$|tokenizer_class$|finetuning_task$|prefix$|embd_pdrop$|router_aux_loss_coef$)/;

/**
 * Returns the unknown fields of a config.json whose values are not null, false or empty. A notice lists them,
 * so that the user can judge their effect.
 */
export function unknownFields({ path, values }: JsonFields, read: ReadonlySet<string>): readonly string[] {
  const isSet = (value: unknown): boolean =>
    value !== null && value !== false && JSON.stringify(value) !== '{}' && JSON.stringify(value) !== '[]';
  const unknown = Object.entries(values).filter(
    ([name, value]) => !read.has(name) && !harmless.test(name) && isSet(value),
  );
  return unknown.length === 0
    ? []
    : [`${path}: nothing here computes with ${unknown.map(([name]) => name).join(', ')}`];
}

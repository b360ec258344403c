import type { JsonFields } from './json-fields.js';

/** What the models of a `model_type` need that fields of config.json need not show. */
const needsOfTypes: Readonly<Record<string, string>> = {
  albert: 'weights that all layers share, and embeddings of another width',
  bloom: 'ALiBi position biases',
  camembert: 'positions that begin after the padding token, and no token types',
  'deberta-v2': 'disentangled attention over relative positions',
  distilbert: 'layers without token types and pooler',
  electra: 'a discriminator and a generator',
  falcon: 'rotary position embeddings, and attention next to the feed-forward layer',
  gemma: 'rotary position embeddings, RMSNorm and gated feed-forward layers',
  gpt_neo: 'local attention in every other layer',
  gpt_neox: 'rotary position embeddings, and attention next to the feed-forward layer',
  gptj: 'rotary position embeddings, and attention next to the feed-forward layer',
  llama: 'rotary position embeddings, RMSNorm and gated feed-forward layers (SwiGLU)',
  mamba: 'state-space layers',
  mistral: 'rotary position embeddings, RMSNorm and gated feed-forward layers (SwiGLU)',
  mixtral: 'rotary position embeddings, RMSNorm and a mixture of experts',
  mpt: 'ALiBi position biases',
  opt: 'ReLU, and positions that begin at 2',
  phi: 'rotary position embeddings, and attention next to the feed-forward layer',
  qwen2: 'rotary position embeddings, RMSNorm and gated feed-forward layers (SwiGLU)',
  roberta: 'positions that begin after the padding token, and no token types',
  t5: 'an encoder with a decoder, and relative position biases',
};

type Values = Readonly<Record<string, unknown>>;

/** What a model needs that is computed nowhere here. */
export interface UnsupportedFeature {
  readonly what: string;
  /** The field of config.json that asks for it; undefined where `model_type` does. */
  readonly field?: string;
  /** What that field would have to be. */
  readonly expected?: string;
}

interface Feature {
  readonly what: string;
  readonly fields: readonly string[];
  /** Whether a value other than null and false asks for it. Default: every one. */
  readonly asks?: (value: unknown, values: Values) => boolean;
  /** What does not ask for it. Default: none, or false. */
  readonly expected?: string;
}

const isBert = ({ model_type: type }: Values): boolean => type === 'bert';
const headsOf = (values: Values): number => Number(values.num_attention_heads ?? values.n_head);
const sizeOf = (values: Values): number => Number(values.hidden_size ?? values.n_embd);

const features: readonly Feature[] = [
  {
    what: 'rotary position embeddings',
    fields: ['rope_theta', 'rope_scaling', 'rope_parameters', 'rotary_dim', 'rotary_pct', 'rotary_emb_base'],
  },
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
    asks: (value, values) => value !== headsOf(values),
    expected: 'as many as attention heads',
  },
  { what: 'multi-query attention', fields: ['multi_query'] },
  {
    what: 'heads of another size than hidden size / heads',
    fields: ['head_dim'],
    asks: (value, values) => value !== sizeOf(values) / headsOf(values),
    expected: 'hidden size / heads',
  },
  { what: 'RMSNorm', fields: ['rms_norm_eps'] },
  { what: 'sliding-window attention', fields: ['sliding_window', 'window_size'] },
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

/** Switches that must not be turned off. */
const onSwitches: readonly Feature[] = [
  { what: 'attention without scaling', fields: ['scale_attn_weights'] },
  {
    what: 'an output layer with weights of its own',
    fields: ['tie_word_embeddings'],
    asks: (_, values) => isBert(values),
  },
];

/**
 * What the model of a config.json needs and nothing here computes; nothing for a GPT-2 or BERT that is
 * supported.
 */
export function unsupportedFeatures({ values }: JsonFields): readonly UnsupportedFeature[] {
  const type = String(values.model_type);
  const ofType = Object.hasOwn(needsOfTypes, type) ? [{ what: needsOfTypes[type]! }] : [];
  const asked = features.flatMap(({ what, fields, asks = () => true, expected = 'false' }) => {
    const field = fields.find((name) => {
      const value = values[name];
      return value !== undefined && value !== null && value !== false && asks(value, values);
    });
    return field === undefined ? [] : [{ what, field, expected }];
  });
  const turnedOff = onSwitches.flatMap(({ what, fields: [field], asks = () => true }) =>
    values[field!] === false && asks(false, values) ? [{ what, field: field!, expected: 'true' }] : [],
  );
  return [...ofType, ...asked, ...turnedOff];
}

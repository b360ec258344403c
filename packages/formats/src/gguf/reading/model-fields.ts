import type { GptTypeName } from '../../huggingface/model-types.js';
import type { GgufFile } from './gguf-file.js';
import type { MetadataFields } from './metadata-fields.js';

type Fields = Readonly<Record<string, unknown>>;

/**
 * The supported model types for each of llama.cpp's architectures. If there are two, the first is for models
 * without experts, and the second for models with experts.
 */
const modelTypes: Readonly<Record<string, readonly GptTypeName[]>> = {
  gpt2: ['gpt2'],
  llama: ['llama', 'mixtral'],
  smollm3: ['smollm3'],
  qwen2: ['qwen2'],
  qwen3: ['qwen3'],
  qwen2moe: ['qwen2_moe'],
  qwen3moe: ['qwen3_moe'],
  olmoe: ['olmoe'],
};

/**
 * Returns the shortest decimal number that rounds to the same float32 as `value`. For example, files store
 * 1e-5 as the float32 9.99999974e-6, for which the result is 1e-5.
 *
 * @param stored converts a number to the value that a file stores for it. Default: the identity
 */
export function shortestDecimal(value: number, stored = (number: number): number => number): number {
  for (let digits = 1; digits < 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(stored(candidate)) === Math.fround(stored(value))) return candidate;
  }
  return value;
}

/** Returns the config.json fields that describe the scaling of rotary positions. */
function ropeFields(fields: MetadataFields, key: (name: string) => string): Fields {
  const type = fields.text(key('rope.scaling.type')) ?? 'none';
  const factor = shortestDecimal(fields.number(key('rope.scaling.factor')) ?? 1);
  const base = shortestDecimal(fields.number(key('rope.freq_base')) ?? 10_000);
  const attention = fields.number(key('rope.scaling.attn_factor')) ?? 1;
  const original = fields.count(key('rope.scaling.original_context_length'));
  const fast = fields.number(key('rope.scaling.yarn_beta_fast'));
  const slow = fields.number(key('rope.scaling.yarn_beta_slow'));
  const plain = { rope_theta: base };
  if (type === 'none' || (type === 'linear' && factor === 1)) return { ...plain, rope_scaling: null };
  if (type === 'linear') return { ...plain, rope_scaling: { rope_type: 'linear', factor } };
  if (type !== 'yarn') {
    throw fields.unsupported(
      `${key('rope.scaling.type')} is ${JSON.stringify(type)}`,
      'none, linear or yarn',
    );
  }
  const usual = factor <= 1 ? 1 : 1 + 0.1 * Math.log(factor);
  return {
    ...plain,
    rope_scaling: {
      rope_type: 'yarn',
      factor,
      ...(original === undefined ? {} : { original_max_position_embeddings: original }),
      ...(fast === undefined ? {} : { beta_fast: shortestDecimal(fast) }),
      ...(slow === undefined ? {} : { beta_slow: shortestDecimal(slow) }),
      ...(attention === 1
        ? {}
        : { attention_factor: shortestDecimal(usual * attention, (factor) => factor / usual) }),
    },
  };
}

function expertFields(fields: MetadataFields, key: (name: string) => string, modelType: GptTypeName): Fields {
  const numExperts = fields.count(key('expert_count')) ?? 0;
  const width = fields.count(key('expert_feed_forward_length'));
  const shared = fields.count(key('expert_shared_feed_forward_length'));
  if (numExperts === 0) return {};
  const perToken = fields.count(key('expert_used_count'));
  const common = { num_experts_per_tok: fields.required(key('expert_used_count'), perToken) };
  switch (modelType) {
    case 'mixtral':
      return {
        ...common,
        num_local_experts: numExperts,
        ...(width === undefined ? {} : { intermediate_size: width }),
      };
    case 'olmoe':
      return {
        ...common,
        num_experts: numExperts,
        norm_topk_prob: false,
        ...(width === undefined ? {} : { intermediate_size: width }),
      };
    default:
      return {
        ...common,
        num_experts: numExperts,
        norm_topk_prob: modelType === 'qwen3_moe',
        moe_intermediate_size: fields.required(key('expert_feed_forward_length'), width),
        ...(shared === undefined ? {} : { shared_expert_intermediate_size: shared }),
      };
  }
}

/** keys that do not affect the results of the supported models */
const withoutEffect = ['vocab_size', 'expert_shared_count', 'rope.scaling.finetuned'];

function checkRest(fields: MetadataFields, architecture: string): void {
  for (const name of withoutEffect) fields.any(`${architecture}.${name}`);
  const [unknown] = fields.unread(`${architecture}.`);
  if (unknown === undefined) return;
  throw fields.unsupported(`nothing here computes with ${unknown}`, 'metadata of a model without it');
}

/** Returns the config.json fields of a GPT-2. */
function gpt2Fields(fields: MetadataFields, key: (name: string) => string): Fields {
  const size = (name: string): number => fields.required(key(name), fields.count(key(name)));
  const epsilon = key('attention.layer_norm_epsilon');
  return {
    n_embd: size('embedding_length'),
    n_head: size('attention.head_count'),
    n_layer: size('block_count'),
    n_inner: size('feed_forward_length'),
    n_positions: size('context_length'),
    layer_norm_epsilon: shortestDecimal(fields.required(epsilon, fields.number(epsilon))),
    activation_function: 'gelu_new',
  };
}

/** Returns the config.json fields of a Llama or of a model derived from Llama. */
function llamaFields(
  { fields, file, modelType }: { fields: MetadataFields; file: GgufFile; modelType: GptTypeName },
  key: (name: string) => string,
): Fields {
  const size = (name: string): number => fields.required(key(name), fields.count(key(name)));
  const [hidden, heads] = [size('embedding_length'), size('attention.head_count')];
  const headSize = fields.count(key('attention.key_length')) ?? hidden / heads;
  for (const name of ['attention.value_length', 'rope.dimension_count']) {
    const other = fields.count(key(name)) ?? headSize;
    if (other !== headSize) {
      throw fields.unsupported(
        `${key(name)} is ${other}, and heads have ${headSize} features`,
        `${headSize}`,
      );
    }
  }
  const has = (name: string): boolean => file.tensors.has(name);
  const epsilon = key('attention.layer_norm_rms_epsilon');
  const hasBias = has('blk.0.attn_q.bias');
  return {
    hidden_size: hidden,
    num_attention_heads: heads,
    num_key_value_heads: fields.count(key('attention.head_count_kv')) ?? heads,
    head_dim: headSize,
    num_hidden_layers: size('block_count'),
    intermediate_size: fields.count(key('feed_forward_length')) ?? 0,
    max_position_embeddings: size('context_length'),
    rms_norm_eps: shortestDecimal(fields.required(epsilon, fields.number(epsilon))),
    hidden_act: 'silu',
    ...ropeFields(fields, key),
    ...(modelType === 'llama' ? { attention_bias: hasBias, mlp_bias: has('blk.0.ffn_gate.bias') } : {}),
    ...(modelType === 'qwen2_moe' ? { qkv_bias: hasBias } : {}),
    ...(modelType === 'mixtral' ? { sliding_window: null } : {}),
    // the file does not contain this interval, because it is a constant in llama.cpp
    ...(modelType === 'smollm3' ? { no_rope_layer_interval: 4 } : {}),
    ...expertFields(fields, key, modelType),
  };
}

/**
 * Returns config.json fields of the transformers library that describe the model in a GGUF file.
 *
 * @throws CheckpointError MTL_GGUF_INVALID for metadata that are missing or wrong, MTL_GGUF_ARCHITECTURE for
 *   a model that this project cannot compute
 */
export function modelFields(
  fields: MetadataFields,
  file: GgufFile,
): Fields & { readonly model_type: GptTypeName } {
  const architecture = fields.required('general.architecture', fields.text('general.architecture'));
  const kind = fields.text('general.type') ?? 'model';
  const types = Object.hasOwn(modelTypes, architecture) ? modelTypes[architecture]! : undefined;
  if (types === undefined || kind !== 'model') {
    const what = kind === 'model' ? `its architecture is ${architecture}` : `it is of the type ${kind}`;
    throw fields.unsupported(what, `a model of ${Object.keys(modelTypes).join(', ')}`);
  }
  const key = (name: string): string => `${architecture}.${name}`;
  const hasExperts = (fields.count(key('expert_count')) ?? 0) > 0;
  const modelType = (hasExperts ? types[1] : undefined) ?? types[0]!;
  const rows = fields.required('token_embd.weight', file.tensors.get('token_embd.weight')).shape[0];
  const stated =
    modelType === 'gpt2' ? gpt2Fields(fields, key) : llamaFields({ fields, file, modelType }, key);
  checkRest(fields, architecture);
  const tied = !file.tensors.has('output.weight');
  return { model_type: modelType, ...stated, vocab_size: rows, tie_word_embeddings: tied };
}

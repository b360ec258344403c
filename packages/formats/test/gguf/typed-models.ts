import { configurations } from './tiny-models.js';

type Fields = Readonly<Record<string, unknown>>;

/** A Llama whose rows have 256 values; its 9 layers reach every rule about layers. */
const wide: Fields = {
  ...configurations.llama,
  hidden_size: 256,
  intermediate_size: 256,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 32,
  num_hidden_layers: 9,
};
const experts = { num_experts_per_tok: 2, norm_topk_prob: false, moe_intermediate_size: 256 };

/** Models whose tensors get different types from llama.cpp's quantisation, as config.json states them. */
export const typedModels: Readonly<Record<string, Fields>> = {
  llama: { ...wide, num_hidden_layers: 17 },
  'llama-tied': { ...wide, tie_word_embeddings: true, intermediate_size: 288 },
  'llama-80-layers': { ...wide, num_hidden_layers: 80 },
  'llama-80-layers-all-keys': { ...wide, num_hidden_layers: 80, num_key_value_heads: 8 },
  'qwen2-80-layers': { ...wide, model_type: 'qwen2', num_hidden_layers: 80, num_key_value_heads: 8 },
  'llama-narrow': configurations.llama,
  gpt2: { ...configurations.gpt2, n_embd: 256, n_layer: 9 },
  'gpt2-untied': { ...configurations['gpt2-untied'], n_embd: 256, n_layer: 3 },
  smollm3: { ...wide, model_type: 'smollm3', tie_word_embeddings: true },
  qwen3: { ...wide, model_type: 'qwen3' },
  'mixtral-4-experts': { ...wide, model_type: 'mixtral', num_local_experts: 4, num_experts_per_tok: 2 },
  'mixtral-8-experts': { ...wide, model_type: 'mixtral', num_local_experts: 8, num_experts_per_tok: 2 },
  'qwen2-moe': {
    ...wide,
    ...experts,
    model_type: 'qwen2_moe',
    num_experts: 8,
    shared_expert_intermediate_size: 512,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  },
};

/**
 * Returns the types of tensors with all layers together, in their order: one type where all are equal.
 *
 * @param types the types by the names of the tensors
 */
export function typesByLayer(types: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const together = new Map<string, string[]>();
  for (const [name, type] of Object.entries(types)) {
    const [, layer = '0'] = /^blk\.(\d+)\./.exec(name) ?? [];
    const part = name.replace(/^blk\.\d+\./, 'blk.*.');
    const list = together.get(part) ?? [];
    list[Number(layer)] = type;
    together.set(part, list);
  }
  return Object.fromEntries(
    [...together].map(([part, list]) => [part, new Set(list).size === 1 ? list[0]! : list.join(' ')]),
  );
}

import type { Flags } from '../schema/flag-schema.js';
import { presetTable } from './preset-table.js';

/**
 * Llama 3 and Qwen3 share these: blocks with RMSNorm, SwiGLU and rotary positions, without biases. Tokens are
 * those of their own tokenizers, which the user names; without one a dataset has ids of this vocabulary.
 */
const publishedBlocks: Flags = {
  'tokenizer-type': 'NullTokenizer',
  'make-vocab-size-divisible-by': 128,
  'position-embedding-type': 'rope',
  normalization: 'RMSNorm',
  swiglu: true,
  'disable-bias-linear': true,
  'group-query-attention': true,
  'num-query-groups': 8,
  'attention-dropout': 0,
  'hidden-dropout': 0,
  'micro-batch-size': 1,
  'lr-decay-style': 'cosine',
  'weight-decay': 0.1,
  'adam-beta2': 0.95,
  'clip-grad': 1,
  'log-interval': 10,
};

/**
 * Pretraining of Llama 3 (Grattafiori et al. 2024, section 3.4.1 and table 3): 1.2 million steps, of which
 * 8,000 are warm-up, a cosine down to a hundredth, batches of 16 million tokens (which its runs end with) in
 * samples of 8,192. Llama 3.1 is trained on longer ones afterwards: --use-rope-scaling.
 */
const llama3: Flags = {
  ...publishedBlocks,
  'vocab-size': 128_256,
  'untie-embeddings-and-output-weights': true,
  'rotary-base': 500_000,
  'norm-epsilon': 1e-5,
  'seq-length': 8192,
  'global-batch-size': 2048,
  'train-iters': 1_200_000,
  'lr-warmup-fraction': 8000 / 1_200_000,
};

/**
 * Qwen3's dense models (Yang et al. 2025, table 1): samples of 4,096 tokens. The report gives no learning
 * rates or batches: these are Llama 3's, in as many tokens.
 */
export const qwen3: Flags = {
  ...publishedBlocks,
  'vocab-size': 151_936,
  'kv-channels': 128,
  'qk-layernorm': true,
  'rotary-base': 1_000_000,
  'norm-epsilon': 1e-6,
  'seq-length': 4096,
  'global-batch-size': 4096,
  'train-iters': 1_200_000,
  'lr-warmup-fraction': 8000 / 1_200_000,
};

const columns = [
  'num-layers',
  'hidden-size',
  'num-attention-heads',
  'ffn-hidden-size',
  'lr',
  'min-lr',
] as const;

/** Presets of models whose weights are published, by their config.json. */
export const llamaAndQwenPresets: Readonly<Record<string, Flags>> = {
  ...presetTable({
    recipe: llama3,
    columns,
    rows: {
      'llama3-8b': [32, 4096, 32, 14_336, 3e-4, 3e-6],
      'llama3-70b': [80, 8192, 64, 28_672, 1.5e-4, 1.5e-6],
      'llama3-405b': [126, 16_384, 128, 53_248, 8e-5, 8e-7],
    },
  }),
  // the smallest three have one table for embedding and output layer
  ...presetTable({
    recipe: qwen3,
    columns,
    rows: {
      'qwen3-0.6b': [28, 1024, 16, 3072, 3e-4, 3e-6],
      'qwen3-1.7b': [28, 2048, 16, 6144, 3e-4, 3e-6],
      'qwen3-4b': [36, 2560, 32, 9728, 3e-4, 3e-6],
    },
  }),
  ...presetTable({
    recipe: { ...qwen3, 'untie-embeddings-and-output-weights': true },
    columns,
    rows: {
      'qwen3-8b': [36, 4096, 32, 12_288, 3e-4, 3e-6],
      'qwen3-14b': [40, 5120, 40, 17_408, 1.5e-4, 1.5e-6],
      'qwen3-32b': [64, 5120, 64, 25_600, 1.5e-4, 1.5e-6],
    },
  }),
};

/**
 * Mixtral (Jiang et al. 2024, table 1): every layer has experts, of which a token uses two. Neither recipe
 * nor data are published: learning rates and batches are those of Llama 3's presets, and the coefficient of
 * the balancing loss is that of Megatron-LM's example, of the loss that does not depend on how the batch is
 * split.
 */
const mixtral: Flags = {
  ...publishedBlocks,
  'vocab-size': 32_000,
  'untie-embeddings-and-output-weights': true,
  'rotary-base': 1_000_000,
  'norm-epsilon': 1e-5,
  'seq-length': 4096,
  'global-batch-size': 4096,
  'train-iters': 1_200_000,
  'lr-warmup-fraction': 8000 / 1_200_000,
  'moe-router-load-balancing-type': ['seq_aux_loss'],
  'moe-aux-loss-coeff': [1e-2],
};

/** Qwen3 with experts (Yang et al. 2025, table 2 and section 2): balanced over the global batch. */
const qwen3WithExperts: Flags = {
  ...qwen3,
  'untie-embeddings-and-output-weights': true,
  'moe-router-load-balancing-type': ['global_aux_loss'],
  'moe-aux-loss-coeff': [1e-3],
};

const expertColumns = [
  'num-layers',
  'hidden-size',
  'num-attention-heads',
  'num-query-groups',
  'ffn-hidden-size',
  'num-experts',
  'moe-router-topk',
  'moe-ffn-hidden-size',
  'lr',
  'min-lr',
] as const;

/** Presets of mixtures of experts whose weights are published, by their config.json. */
export const expertPresets: Readonly<Record<string, Flags>> = {
  ...presetTable({
    recipe: mixtral,
    columns: expertColumns,
    rows: { 'mixtral-8x7b': [32, 4096, 32, 8, 14_336, 8, 2, 14_336, 3e-4, 3e-6] },
  }),
  ...presetTable({
    recipe: qwen3WithExperts,
    columns: expertColumns,
    rows: { 'qwen3-30b-a3b': [48, 2048, 32, 4, 6144, 128, 8, 768, 3e-4, 3e-6] },
  }),
};

import type { Flags } from '../schema/flag-schema.js';
import { publishedBlocks, qwen3 } from './llama-and-qwen-presets.js';
import { presetTable } from './preset-table.js';

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

const columns = [
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
    columns,
    rows: { 'mixtral-8x7b': [32, 4096, 32, 8, 14_336, 8, 2, 14_336, 3e-4, 3e-6] },
  }),
  ...presetTable({
    recipe: qwen3WithExperts,
    columns,
    rows: { 'qwen3-30b-a3b': [48, 2048, 32, 4, 6144, 128, 8, 768, 3e-4, 3e-6] },
  }),
};

import type { Flags } from '../schema/flag-schema.js';
import { presetTable } from './preset-table.js';

/**
 * The recipe of the GPT-2 and Megatron-LM presets (Shoeybi 2019, section 4.2): batch 512 and 300,000 steps.
 * The learning rate warms up in 3,000 steps, and decays as a cosine from 1.5e-4 to 1e-5. Weight decay is
 * 0.01, gradient clipping 1, dropout 0.1. The paper gives no betas; 0.9 and 0.999 are Megatron-LM's defaults.
 */
const gpt2Recipe: Flags = {
  'tokenizer-type': 'GPT2BPETokenizer',
  'global-batch-size': 512,
  'train-iters': 300_000,
  lr: 1.5e-4,
  'min-lr': 1e-5,
  'lr-decay-style': 'cosine',
  'lr-warmup-fraction': 0.01,
  'weight-decay': 0.01,
  'clip-grad': 1,
  'attention-dropout': 0.1,
  'hidden-dropout': 0.1,
  'data-path': ['bundled'],
  split: '949,50,1',
  'log-interval': 10,
};

/**
 * The recipe of the smallest models: the bundled corpus, with a vocabulary of 4,096 trained on the same
 * corpus, in samples short enough for two slow cores to train in two minutes. The dtype is float32, so that
 * losses are equal on every machine.
 */
const onBundledCorpus: Flags = {
  'seq-length': 256,
  'micro-batch-size': 8,
  'make-vocab-size-divisible-by': 128,
  'attention-dropout': 0,
  'hidden-dropout': 0,
  'lr-warmup-fraction': 0.05,
  'adam-beta2': 0.98,
  'weight-decay': 0.1,
  'data-path': ['bundled'],
  split: '95,5,0',
  'eval-iters': 8,
  'log-interval': 50,
};

/**
 * The smallest models of today's kind: blocks with the architecture of Qwen3's blocks, on the bundled corpus.
 * Muon updates their matrices.
 */
const smallBlocks: Flags = {
  ...onBundledCorpus,
  'num-layers': 4,
  'hidden-size': 128,
  'num-attention-heads': 2,
  normalization: 'RMSNorm',
  swiglu: true,
  'position-embedding-type': 'rope',
  'qk-layernorm': true,
  'disable-bias-linear': true,
  'train-iters': 1000,
  optimizer: 'muon',
  'muon-momentum': 0.95,
  'muon-nesterov': true,
  'muon-extra-scale-factor': 0.2,
  'muon-num-ns-steps': 3,
  lr: 1.5e-2,
  'min-lr': 0,
  'lr-decay-style': 'linear',
  'eval-interval': 250,
};

/**
 * Flags that Llama 3 and Qwen3 share: blocks with RMSNorm, SwiGLU and rotary positions, without biases. The
 * user must name the model's own tokenizer, or provide a dataset with ids of its vocabulary.
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
 * The pretraining of Llama 3 (Grattafiori et al. 2024, section 3.4.1 and table 3): 1.2 million steps,
 * including 8,000 steps of warm-up, and a cosine decay to a hundredth of the maximum rate. Batches have 16
 * million tokens, as at the end of the published runs, in samples of 8,192 tokens. Llama 3.1 was trained on
 * longer samples afterwards (see --use-rope-scaling).
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
 * Qwen3's dense models (Yang et al. 2025, table 1), with samples of 4,096 tokens. The report gives no
 * learning rates or batch sizes, so the preset uses the values of Llama 3, with the same number of tokens in
 * a batch.
 */
const qwen3: Flags = {
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

const dense = <Name extends string>(recipe: Flags, rows: Readonly<Record<Name, readonly number[]>>) =>
  presetTable({
    recipe,
    columns: ['num-layers', 'hidden-size', 'num-attention-heads', 'ffn-hidden-size', 'lr', 'min-lr'],
    rows,
  });

/** Presets of published dense models, with the sizes in their config.json. */
const llamaAndQwenPresets = {
  ...dense(llama3, {
    'llama3-8b': [32, 4096, 32, 14_336, 3e-4, 3e-6],
    'llama3-70b': [80, 8192, 64, 28_672, 1.5e-4, 1.5e-6],
    'llama3-405b': [126, 16_384, 128, 53_248, 8e-5, 8e-7],
  }),
  // the smallest three models tie embedding and output layer
  ...dense(qwen3, {
    'qwen3-0.6b': [28, 1024, 16, 3072, 3e-4, 3e-6],
    'qwen3-1.7b': [28, 2048, 16, 6144, 3e-4, 3e-6],
    'qwen3-4b': [36, 2560, 32, 9728, 3e-4, 3e-6],
  }),
  ...dense(
    { ...qwen3, 'untie-embeddings-and-output-weights': true },
    {
      'qwen3-8b': [36, 4096, 32, 12_288, 3e-4, 3e-6],
      'qwen3-14b': [40, 5120, 40, 17_408, 1.5e-4, 1.5e-6],
      'qwen3-32b': [64, 5120, 64, 25_600, 1.5e-4, 1.5e-6],
    },
  ),
};

/**
 * Mixtral (Jiang et al. 2024, table 1): every layer has experts, and a token uses two. The recipe and the
 * data are not published. Learning rates and batch sizes are taken from Llama 3's presets, and the
 * coefficient of the balancing loss from Megatron-LM's example. This balancing loss does not depend on how
 * the batch is split over ranks.
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

/**
 * Qwen3 with experts (Yang et al. 2025, table 2 and section 2). The experts' loads are balanced over the
 * global batch.
 */
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

/** Presets of published mixtures of experts, with the sizes in their config.json. */
const expertPresets = {
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

const presets = {
  // The default model, which is trained if the user gives no model. docs/studies/default-presets.md has the
  // reasons.
  default: smallBlocks,
  // A model with experts in every layer; a token uses two of eight. It has the same FLOPs per token as the
  // preset `default` above, and twice the parameters. After 1,000 steps, its validation loss is 4.032,
  // against 4.066 for `default`, and training took 20 % more processor time. After schedules of 250 steps the
  // loss is not lower (4.787 against 4.780). Each value is from one seed.
  'moe-3m': {
    ...smallBlocks,
    'num-experts': 8,
    'moe-router-topk': 2,
    'moe-ffn-hidden-size': 160,
    'moe-router-load-balancing-type': ['seq_aux_loss'],
    'moe-aux-loss-coeff': [1e-2],
  },
  // A GPT-2 of 4 million parameters on the bundled corpus.
  'gpt2-4m': {
    ...onBundledCorpus,
    'num-layers': 4,
    'hidden-size': 256,
    'num-attention-heads': 4,
    'train-iters': 500,
    lr: 2e-3,
    'min-lr': 2e-4,
    'lr-decay-style': 'cosine',
    'eval-interval': 250,
  },
  // About 11 million parameters, on bytes: small enough for a laptop, and large enough to learn English
  // spelling from a book.
  'char-10m': {
    'num-layers': 6,
    'hidden-size': 384,
    'num-attention-heads': 6,
    'seq-length': 256,
    'micro-batch-size': 16,
    'tokenizer-type': 'ByteLevelTokenizer',
    'make-vocab-size-divisible-by': 128,
    'attention-dropout': 0,
    'hidden-dropout': 0,
    'train-iters': 1000,
    lr: 1e-3,
    'min-lr': 1e-4,
    'lr-decay-style': 'cosine',
    'lr-warmup-fraction': 0.05,
    'adam-beta2': 0.99,
    'weight-decay': 0.1,
    'data-path': ['bundled'],
    split: '90,10,0',
    'eval-interval': 250,
    'eval-iters': 10,
    'log-interval': 10,
  },
  ...presetTable({
    recipe: gpt2Recipe,
    columns: [
      'num-layers',
      'hidden-size',
      'num-attention-heads',
      'seq-length',
      'micro-batch-size',
      'make-vocab-size-divisible-by',
    ],
    rows: {
      // GPT-2 small, medium (the 355M model of Shoeybi 2019, table 2) and large
      'gpt2-124m': [12, 768, 12, 1024, 2],
      'gpt2-355m': [24, 1024, 16, 1024, 8],
      'gpt2-774m': [36, 1280, 20, 1024, 8],
      // the hidden sizes and layers of GPT-3 XL and GPT-3 2.7B, but with 16 and 20 heads
      'gpt2-1.3b': [24, 2048, 16, 2048, 4],
      'gpt2-2.7b': [32, 2560, 20, 2048, 4],
      // Shoeybi 2019, table 1: the models on one, two, four and eight GPUs
      'megatron-1.2b': [40, 1536, 16, 1024, 8, 1024],
      'megatron-2.5b': [54, 1920, 20, 1024, 8, 1024],
      'megatron-4.2b': [64, 2304, 24, 1024, 8, 1024],
      'megatron-8.3b': [72, 3072, 32, 1024, 8, 1024],
    },
  }),
  ...llamaAndQwenPresets,
  ...expertPresets,
} satisfies Readonly<Record<string, Flags>>;

/** The names of the presets for GPT. */
export type GptPresetName = keyof typeof presets;

/** Named sets of flags (--preset) for GPT, in families, each from the smallest model to the largest. */
export const gptPresets: Readonly<Record<GptPresetName, Flags>> = presets;

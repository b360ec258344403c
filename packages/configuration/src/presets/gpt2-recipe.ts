import type { Flags } from '../flags/flag-schema.js';

/**
 * The recipe that the GPT-2 and Megatron-LM presets share: batch 512, 300,000 steps with 3,000 of warm-up and
 * one cosine from 1.5e-4 to 1e-5, weight decay 0.01, clipping at 1, dropout 0.1 (Shoeybi 2019, section 4.2).
 * The paper gives no betas; 0.9 and 0.999 are Megatron-LM's defaults.
 */
export const gpt2Recipe: Flags = {
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

import type { Flags } from '../flags/flag-schema.js';

/**
 * What trains when nothing is asked for: a GPT of 4 million parameters on the bundled corpus, with a
 * vocabulary of 4,096 trained on it. Sized for a first minute: a million tokens in under three minutes on two
 * slow cores, after which samples have the corpus' words and cadence. float32, so that every machine gives
 * the same losses.
 */
export const defaultPreset: Flags = {
  'num-layers': 4,
  'hidden-size': 256,
  'num-attention-heads': 4,
  'seq-length': 256,
  'micro-batch-size': 8,
  'make-vocab-size-divisible-by': 128,
  'attention-dropout': 0,
  'hidden-dropout': 0,
  'train-iters': 500,
  lr: 2e-3,
  'min-lr': 2e-4,
  'lr-decay-style': 'cosine',
  'lr-warmup-fraction': 0.05,
  'adam-beta2': 0.98,
  'weight-decay': 0.1,
  'data-path': ['bundled'],
  split: '95,5,0',
  'eval-interval': 250,
  'eval-iters': 8,
  'log-interval': 50,
};

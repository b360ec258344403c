import type { Flags } from '../flags/flag-schema.js';

/**
 * About 11 million parameters on bytes: small enough for a laptop, large enough to learn English spelling
 * from a book.
 */
export const char10m: Flags = {
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
};

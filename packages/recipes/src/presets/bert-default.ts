import type { Flags } from '../flags/flag-schema.js';

/**
 * What trains when nothing is asked for: a BERT of 4 million parameters on the corpus that comes along, with
 * a WordPiece vocabulary of 4,096 trained on it. Sized for a first minute or two on two slow cores. float32,
 * so that every machine gives the same losses.
 */
export const bertDefault: Flags = {
  'num-layers': 4,
  'hidden-size': 256,
  'num-attention-heads': 4,
  'seq-length': 128,
  'micro-batch-size': 16,
  'make-vocab-size-divisible-by': 128,
  'attention-dropout': 0,
  'hidden-dropout': 0,
  'train-iters': 1000,
  lr: 1e-3,
  'min-lr': 1e-4,
  'lr-decay-style': 'linear',
  'lr-warmup-fraction': 0.05,
  'adam-beta2': 0.98,
  'weight-decay': 0.01,
  split: '95,5,0',
  'eval-interval': 500,
  'eval-iters': 16,
  'log-interval': 50,
};

import type { Flags } from '../flags/flag-schema.js';

/**
 * What trains when nothing is asked for: a BERT of 1.4 million parameters on the corpus that comes along,
 * with a WordPiece vocabulary of 4,096 trained on it. Sized for a first minute or two on two slow cores:
 * narrow, in many small steps of short samples, and layer norm after sublayers, which learns faster in
 * shallow models (docs/studies/layer-norm-placement.md). A BERT stays at the frequencies of words (a
 * masked-language loss of 6.4) until it has seen some hundred thousand tokens; wider ones get no further in
 * that time. float32, so that every machine gives the same losses.
 */
export const bertDefault: Flags = {
  'num-layers': 4,
  'hidden-size': 128,
  'num-attention-heads': 4,
  'layer-norm-placement': 'post',
  'seq-length': 64,
  'micro-batch-size': 16,
  'make-vocab-size-divisible-by': 128,
  'attention-dropout': 0,
  'hidden-dropout': 0,
  'train-iters': 5000,
  lr: 1e-3,
  'min-lr': 1e-4,
  'lr-decay-style': 'linear',
  'lr-warmup-fraction': 0.05,
  'adam-beta2': 0.98,
  'weight-decay': 0.01,
  split: '95,5,0',
  'eval-interval': 1000,
  'eval-iters': 32,
  'log-interval': 100,
};

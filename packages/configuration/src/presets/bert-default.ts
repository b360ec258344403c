import type { Flags } from '../flags/flag-schema.js';

/**
 * What trains when nothing is asked for: a BERT of 1.4 million parameters on the bundled corpus,
 * with a WordPiece vocabulary of 4,096 trained on it. Sized for two or three minutes on two slow cores:
 * narrow, in many small steps of short samples, and with layer norm after sublayers, which learns faster in
 * shallow models (docs/studies/layer-norm-placement.md). A masked-language loss of 6.4 is that of the
 * frequencies of words alone; it ends at 5.7, a model twice as wide in as much time at 6.3. float32, so that
 * every machine gives the same losses.
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
  'train-iters': 6000,
  lr: 1e-3,
  'min-lr': 1e-4,
  'lr-decay-style': 'linear',
  'lr-warmup-fraction': 0.05,
  'adam-beta2': 0.98,
  'weight-decay': 0.01,
  'data-path': ['bundled'],
  split: '95,5,0',
  'eval-interval': 2000,
  'eval-iters': 32,
  'log-interval': 200,
};

import type { Flags } from '../flags/flag-schema.js';

/**
 * The recipe that BERT's presets share (Shoeybi 2019, section 5.1): batch 1,024, 2 million steps, of which
 * 10,000 are warm-up to 1e-4 (a share of 0.005, so that runs of fewer steps keep the shape), then a line
 * down; weight decay 0.01, clipping at 1, dropout 0.1; 3 % of the documents held out. The paper gives no
 * betas; 0.9 and 0.999 are Megatron-LM's defaults.
 */
export const bertRecipe: Flags = {
  'seq-length': 512,
  'global-batch-size': 1024,
  'train-iters': 2_000_000,
  lr: 1e-4,
  'min-lr': 1e-5,
  'lr-decay-style': 'linear',
  'lr-warmup-fraction': 0.005,
  'weight-decay': 0.01,
  'clip-grad': 1,
  'attention-dropout': 0.1,
  'hidden-dropout': 0.1,
  'data-path': ['bundled'],
  split: '969,30,1',
  'log-interval': 10,
};

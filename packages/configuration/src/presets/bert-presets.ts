import type { Flags } from '../schema/flag-schema.js';
import { presetTable } from './preset-table.js';

/**
 * The recipe of BERT's presets (Shoeybi 2019, section 5.1): batch 1,024 and 2 million steps. The learning
 * rate warms up to 1e-4 in 10,000 steps, then decays linearly. The warm-up is given as a fraction of the
 * steps, 0.005, so that shorter runs keep the shape. Weight decay is 0.01, gradient clipping 1, dropout 0.1,
 * and 3 % of the documents are held out. The paper gives no betas; 0.9 and 0.999 are Megatron-LM's defaults.
 */
const bertRecipe: Flags = {
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

/**
 * The recipe of the smallest models: the bundled corpus in short samples, with a WordPiece vocabulary of
 * 4,096 trained on the same corpus; a small hidden size; and layer norms after the sublayers, with which
 * shallow models learn faster (docs/studies/layer-norm-placement.md). The dtype is float32, so that losses
 * are equal on every machine.
 */
const onBundledCorpus: Flags = {
  'num-layers': 4,
  'hidden-size': 128,
  'num-attention-heads': 4,
  'layer-norm-placement': 'post',
  'seq-length': 64,
  'make-vocab-size-divisible-by': 128,
  'attention-dropout': 0,
  'hidden-dropout': 0,
  'lr-decay-style': 'linear',
  'lr-warmup-fraction': 0.05,
  'adam-beta2': 0.98,
  'weight-decay': 0.01,
  'data-path': ['bundled'],
  split: '95,5,0',
  'eval-iters': 32,
};

const presets = {
  // The default model: a BERT of 1.4 million parameters with rotary position embeddings, as in RoFormer, and
  // Muon for its matrices. docs/studies/default-presets.md has the reasons. For comparison, a model that
  // predicts only the frequencies of words has a masked-language loss of 5.9.
  'bert-default': {
    ...onBundledCorpus,
    'position-embedding-type': 'rope',
    'rotary-interleaved': true,
    'bert-no-binary-head': true,
    'micro-batch-size': 32,
    'train-iters': 2000,
    optimizer: 'muon',
    'muon-momentum': 0.95,
    'muon-nesterov': true,
    'muon-extra-scale-factor': 0.2,
    'muon-num-ns-steps': 3,
    lr: 5e-3,
    'min-lr': 0,
    'eval-interval': 500,
    'log-interval': 50,
  },
  // A model of the same size as `bert-default`, but with learned position embeddings, sentence-order
  // prediction and AdamW.
  'bert-1m': {
    ...onBundledCorpus,
    'micro-batch-size': 16,
    'train-iters': 6000,
    lr: 1e-3,
    'min-lr': 1e-4,
    'eval-interval': 2000,
    'log-interval': 200,
  },
  ...presetTable({
    recipe: bertRecipe,
    columns: ['num-layers', 'hidden-size', 'num-attention-heads', 'micro-batch-size'],
    rows: {
      // Devlin 2018: 110 and 340 million parameters with the paper's vocabulary of 30,522
      'bert-base': [12, 768, 12, 4],
      'bert-large': [24, 1024, 16, 4],
      // Shoeybi 2019, table 4; the paper reports the largest model after 1.5 million steps
      'megatron-bert-336m': [24, 1024, 16, 8],
      'megatron-bert-1.3b': [24, 2048, 32, 8],
      'megatron-bert-3.9b': [48, 2560, 40, 8],
    },
  }),
} satisfies Readonly<Record<string, Flags>>;

/** The names of the presets for BERT. */
export type BertPresetName = keyof typeof presets;

/** Named sets of flags (--preset) for BERT, from the smallest model to the largest. */
export const bertPresets: Readonly<Record<BertPresetName, Flags>> = presets;

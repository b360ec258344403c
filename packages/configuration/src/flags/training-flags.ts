import { recomputableModules } from '@mtl/models';
import { flagsThatDivideModel } from '../strategies/strategies.js';
import {
  choice,
  choices,
  count,
  countList,
  counts,
  naturalNumber,
  positiveNumber,
  seedNumber,
  toggle,
} from './flag-kinds.js';

/** The flags that select the activations to recompute, for pretraining and fine-tuning. */
export const recomputeFlags = {
  'recompute-granularity': choice(
    ['full', 'selective'],
    'Recomputes activations in the backward pass instead of keeping them: whole layers, or attention only (--recompute-activations).',
  ),
  'recompute-method': choice(
    ['uniform', 'block'],
    'With full recomputation: chunks of --recompute-num-layers layers each, or that many first layers of a stage.',
  ),
  'recompute-modules': choices(
    recomputableModules,
    'With selective recomputation: which parts of layers are computed again; moe: mixtures of experts, whose choices are kept. core_attn and moe_act always are.',
    { defaultText: 'core_attn' },
  ),
  'recompute-num-layers': count('Layers per chunk (uniform) or layers to recompute (block).'),
};

/** The flags for the length of training, for batches and for precision. */
export const trainingFlags = {
  'micro-batch-size': count('Samples per forward pass on one data-parallel rank.'),
  'global-batch-size': count(
    'Samples per step, over all data-parallel ranks and accumulated micro-batches.',
    {
      defaultText: '--micro-batch-size x data-parallel size',
      learning: ({ training }) => training.globalBatchSize,
    },
  ),
  'rampup-batch-size': counts(
    'Grows the global batch from START by INCREMENT up to --global-batch-size over SAMPLES samples; needs --train-samples.',
    'START INCREMENT SAMPLES',
  ),
  'train-iters': count('Steps of the whole training run, resumed runs included.', {
    excludes: { 'train-samples': 'training is counted in one or the other' },
  }),
  'train-samples': count(
    'Samples of the whole training run, instead of --train-iters. A resumed run with another batch size takes the steps that fit into those that are left.',
  ),
  'exit-interval': count('Saves and ends the run after a step that is a multiple of this.'),
  'exit-duration-in-mins': positiveNumber(
    'Saves and ends the run after the step in which the program has run for so many minutes.',
  ),
  'iterations-to-skip': countList(
    'Steps that are left out: their samples are consumed, and nothing is computed from them.',
    { defaultText: 'none' },
  ),
  'eval-interval': count('Steps between two evaluations.', { default: 1000 }),
  'eval-iters': naturalNumber('Global batches per evaluation; 0 for none.', { default: 100 }),
  seed: seedNumber('Seed of initial weights, dropout and the order of samples.', {
    default: 1234,
    learning: true,
  }),
  bf16: toggle('Computes in bfloat16; master weights and gradient sums stay fp32.', {
    excludes: { fp16: 'there is one precision to compute in' },
  }),
  fp16: toggle('Computes in float16 with loss scaling; master weights and gradient sums stay fp32.'),
  ...recomputeFlags,
};

/**
 * The flags for the reaction to spikes. A spike is a step whose loss or gradient norm is far above recent
 * values.
 */
export const spikeFlags = {
  'loss-spike-policy': choice(
    ['ignore', 'report', 'skip', 'roll-back'],
    'What follows a step whose loss or gradient norm is far above the values of recent steps, or not finite: nothing, a report that names the documents of its samples, no update, or no update and weights of the newest checkpoint. Training goes on with the samples that follow.',
    { default: 'report' },
  ),
  'loss-spike-window': count('Steps that a step is compared with; the first ones are never spikes.', {
    default: 100,
  }),
  'loss-spike-factor': positiveNumber(
    'How far above the median of the window the loss of a spike is, in standard deviations as the median absolute deviation gives them; a gradient norm is 4 times as far, and the third step in a row needs a quarter of either.',
    { default: 40 },
  ),
  'loss-spike-limit': count(
    'Spikes that are skipped or rolled back with less than a window of steps between two; one more ends the run.',
    { default: 10 },
  ),
  'grad-norm-skip-threshold': positiveNumber(
    'Skips the update of a step with a larger gradient norm (before clipping), whatever the policy.',
    { defaultText: 'no threshold' },
  ),
  'rerun-mode': choice(
    ['disabled', 'validate_results', 'report_stats'],
    'Computes again, from the same samples and random numbers, a step that is out of bounds or not finite (validate_results) or every step (report_stats). Different results come from a faulty machine: the report names the ranks, and the run goes on with the results that came twice.',
    { default: 'disabled' },
  ),
};

/**
 * The flags for a dry run, which builds a training run and simulates its steps without processes, data and
 * memory.
 */
export const dryRunFlags = {
  'dry-run': toggle(
    'Computes nothing: builds the run and its first step for each kind of rank in this one process, and prints memory, FLOPs and communication, or what is wrong. Reads no data, writes nothing.',
  ),
  'num-processes': count('With --dry-run: processes of the run.', {
    defaultText: flagsThatDivideModel.map((name) => `--${name}`).join(' x '),
    needs: ['dry-run', 'describes processes that are not started'],
  }),
};

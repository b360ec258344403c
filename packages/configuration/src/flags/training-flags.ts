import { count, countList, counts, naturalNumber, positiveNumber, seedNumber, toggle } from './flag-kinds.js';
import { recomputeFlags } from './recompute-flags.js';

/** How much is trained, in which portions and in which precision. */
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
  'train-iters': count('Steps of the whole training run, resumed runs included.'),
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
  bf16: toggle('Computes in bfloat16; master weights and gradient sums stay fp32.'),
  fp16: toggle('Computes in float16 with loss scaling; master weights and gradient sums stay fp32.'),
  ...recomputeFlags,
};

import { choice, count, positiveNumber } from './flag-kinds.js';

/** Steps whose loss or gradient norm is far above those of recent steps. */
export const spikeFlags = {
  'loss-spike-policy': choice(
    ['ignore', 'report', 'skip', 'roll-back'],
    'What follows a step whose loss or gradient norm is far above those of recent steps, or not finite: nothing, a report that names the documents of its samples, no update, or no update and weights of the newest checkpoint. Training goes on with the samples that follow.',
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
    'Computes again, from the same samples and random numbers, a step that is out of bounds or not finite (validate_results) or every step (report_stats). Different results are those of a faulty machine: the report names the ranks, and the run goes on with the results that came twice.',
    { default: 'disabled' },
  ),
};

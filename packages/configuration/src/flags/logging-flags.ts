import { count, counts, text, toggle } from './flag-kinds.js';

/** What is reported while training. */
export const loggingFlags = {
  'log-interval': count('Steps per console line.', { default: 100 }),
  'tensorboard-dir': text('Folder for TensorBoard event files.', { placeholder: 'DIR' }),
  'metrics-jsonl': text(
    'A copy of the metrics.jsonl that every run writes in its --save directory: one JSON object per step and per evaluation.',
    { placeholder: 'FILE' },
  ),
  'compare-with-plan': toggle(
    'Print how the steps compare with what mtl plan predicts on the profile of this machine (mtl calibrate), and what is slower.',
  ),
  'profile-steps': counts('Steps of which a trace is written: what every rank did, and when.', 'FIRST LAST'),
  'profile-trace': text('That trace, for ui.perfetto.dev and mtl schedule --compare.', {
    placeholder: 'FILE',
    default: 'trace.json',
  }),
};

import { count, counts, text } from './flag-kinds.js';

/** What is reported while training. */
export const loggingFlags = {
  'log-interval': count('Steps per console line.', { default: 100 }),
  'tensorboard-dir': text('Folder for TensorBoard event files.', { placeholder: 'DIR' }),
  'metrics-jsonl': text(
    'A copy of the metrics.jsonl that every run writes in its --save directory: one JSON object per step and per evaluation.',
    { placeholder: 'FILE' },
  ),
  'profile-steps': counts('Steps of which a trace is written: what every rank did, and when.', 'FIRST LAST'),
  'profile-trace': text('That trace, for ui.perfetto.dev and mtl schedule --compare.', {
    placeholder: 'FILE',
    default: 'trace.json',
  }),
};

import { count, text } from './flag-kinds.js';

/** What is reported while training. */
export const loggingFlags = {
  'log-interval': count('Steps per console line.', { default: 100 }),
  'tensorboard-dir': text('Folder for TensorBoard event files.', { placeholder: 'DIR' }),
  'metrics-jsonl': text('File for one JSON object per step.', { placeholder: 'FILE' }),
};

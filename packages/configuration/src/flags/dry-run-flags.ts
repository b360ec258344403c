import { count, toggle } from './flag-kinds.js';

/** A training run that is built and stepped without its processes, its data and its memory. */
export const dryRunFlags = {
  'dry-run': toggle(
    'Computes nothing: builds the run and its first step for each kind of rank in this one process, and prints memory, FLOPs and communication, or what is wrong. Reads no data, writes nothing.',
  ),
  'num-processes': count('With --dry-run: processes of the run.', {
    defaultText: '--tensor-model-parallel-size x --pipeline-model-parallel-size',
  }),
};

import { strategyFlags } from '../strategies/strategies.js';
import { choice, count, positiveNumber, toggle } from './flag-kinds.js';

/** Where the model runs and how it is sharded over processes. */
export const parallelFlags = {
  device: choice(['cpu', 'cuda'], 'Where tensors live.', { default: 'cpu' }),
  'allow-tf32': toggle(
    'With --device cuda: matmuls of float32 in TF32, faster and with 10 bits of mantissa.',
  ),
  'cuda-graphs': toggle(
    'With --device cuda: records the passes over a micro-batch once, then launches them as a whole. Not with tensor parallelism.',
  ),
  'time-matmuls': toggle(
    'With --device cuda: times several algorithms for every matmul before the first step and uses the fastest. What was chosen is kept in the cache directory of the user, and used by all later runs with this flag.',
  ),
  'distributed-backend': choice(['nccl', 'gloo', 'local'], 'What processes communicate over.', {
    defaultText:
      'local on one host, gloo between hosts; with --device cuda nccl where every process has a GPU of its own',
  }),
  threads: count('CPU threads per process.', {
    defaultText:
      'what the checkpoint was trained with; else by the size of the model and the cores that are free',
  }),
  ...strategyFlags,
  'distributed-timeout-minutes': positiveNumber(
    'Minutes that a process waits for others before it gives up.',
    {
      default: 10,
    },
  ),
};

import { choice, count, positiveNumber, toggle } from './flag-kinds.js';

/** Where the model runs and how it is cut over processes. */
export const parallelFlags = {
  device: choice(['cpu', 'cuda'], 'Where tensors live.', { default: 'cpu' }),
  threads: count('CPU threads per process.', { defaultText: 'all cores of the process' }),
  'tensor-model-parallel-size': count('Processes that share every layer.', { default: 1 }),
  'pipeline-model-parallel-size': count('Pipeline stages.', { default: 1 }),
  'num-layers-per-virtual-pipeline-stage': count(
    'Layers per chunk of the interleaved pipeline schedule; several chunks lie on each stage.',
  ),
  'pipeline-schedule': choice(
    ['gpipe', '1f1b', 'interleaved', 'zb-h1'],
    'Order of forward and backward passes over the stages.',
    { defaultText: '1f1b, or interleaved with virtual stages' },
  ),
  'sequence-parallel': toggle(
    'Also split layer norms and dropout, along the sequence, over the tensor-parallel ranks.',
  ),
  'use-distributed-optimizer': toggle('Split optimizer state over the data-parallel ranks.'),
  'overlap-grad-reduce': toggle('Reduce gradients over data-parallel ranks while the backward pass runs.'),
  'overlap-param-gather': toggle(
    'Gather updated parameters while the forward pass runs; needs --use-distributed-optimizer.',
  ),
  'distributed-timeout-minutes': positiveNumber('Wait this long for other processes before giving up.', {
    default: 10,
  }),
};

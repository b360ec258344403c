import { scheduleNames } from '@mtl/pipeline/schedules';
import { choice, count, positiveNumber, text, toggle } from './flag-kinds.js';

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
  'tensor-model-parallel-size': count('Processes that share every layer.', { default: 1 }),
  'pipeline-model-parallel-size': count('Pipeline stages.', { default: 1 }),
  'num-layers-per-virtual-pipeline-stage': count('Layers per model chunk; each stage has several chunks.'),
  'num-virtual-stages-per-pipeline-rank': count(
    'Chunks of the model on each stage, instead of their layers.',
    { defaultText: '1, or what the schedule has' },
  ),
  'microbatch-group-size-per-virtual-pipeline-stage': count(
    'Micro-batches that the interleaved schedule sends through one chunk before it goes to the next.',
    { defaultText: '--pipeline-model-parallel-size' },
  ),
  'pipeline-schedule': text(
    `Order of forward and backward passes over the stages: ${scheduleNames.join(', ')}, a CSV file, or a JavaScript module that exports a function.`,
    { placeholder: 'NAME|FILE', defaultText: '1f1b, or interleaved with several chunks per stage' },
  ),
  'pipeline-model-parallel-layout': text(
    'Layers of each chunk: even, balanced (by work, embedding and loss included), or written as in "Ettt|ttt|tL".',
    { placeholder: 'LAYOUT', defaultText: 'even, or balanced where that does not work out' },
  ),
  'decoder-first-pipeline-num-layers': count('Layers of the first stage; the others share the rest evenly.'),
  'decoder-last-pipeline-num-layers': count('Layers of the last stage; the others share the rest evenly.'),
  'sequence-parallel': toggle(
    'Also splits layer norms and dropout, along the sequence, over the tensor-parallel ranks.',
  ),
  'use-distributed-optimizer': toggle('Splits optimizer state over the data-parallel ranks.'),
  'overlap-grad-reduce': toggle('Reduces gradients over data-parallel ranks while the backward pass runs.'),
  'overlap-param-gather': toggle(
    'Gathers updated parameters while the forward pass runs; needs --use-distributed-optimizer.',
  ),
  'distributed-timeout-minutes': positiveNumber(
    'Minutes that a process waits for others before it gives up.',
    {
      default: 10,
    },
  ),
};

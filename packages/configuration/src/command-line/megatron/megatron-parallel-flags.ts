import { idle, idleSetting, type MegatronFlag } from './megatron-flag.js';

/** Flags about processes and their communication. */
const parallelism: Record<string, MegatronFlag> = {
  'lazy-mpu-init': {
    what: 'late set-up of process groups',
    why: 'process groups are made when a training run joins its job',
    harmless: 'always',
    takes: 'one',
  },
  'high-priority-stream-groups': {
    what: 'priorities of communication',
    why: 'the schedule and the layers decide what overlaps',
    harmless: 'always',
    takes: 'many',
  },
  ...idle('the schedule and the layers decide what overlaps', {
    'no-overlap-p2p-communication': 'communication of stages that does not overlap',
    'overlap-p2p-communication-warmup-flush': 'overlapped communication of stages',
    'delay-wgrad-compute': 'the time of weight gradients',
    'defer-embedding-wgrad-compute': 'the time of the weight gradient of the output layer',
    'scatter-gather-tensors-in-pipeline': 'boundaries sent in parts',
    'no-scatter-gather-tensors-in-pipeline': 'boundaries sent whole',
    'overlap-p2p-communication': 'communication of stages that overlaps',
    'align-grad-reduce': 'the time of reductions',
    'no-align-grad-reduce': 'the time of reductions',
    'align-param-gather': 'the time of gathers',
    'no-align-param-gather': 'the time of gathers',
    'use-ring-exchange-p2p': 'communication of stages',
    'batch-p2p-communication': 'communication of stages',
  }),
  ...idle('gradients are summed: the loss is divided by the tokens of the global batch before', {
    'no-gradient-reduce-div-fusion': 'where gradients are averaged',
  }),
  ...idle('gradients are always in flat buffers, in buckets of one size', {
    'use-contiguous-buffers-in-local-ddp': 'one buffer of gradients, in old versions',
    'no-contiguous-buffers-in-local-ddp': 'no buffer of gradients, in old versions',
    'use-contiguous-buffers-in-ddp': 'one buffer of gradients, in old versions',
    'ddp-pad-buckets-for-high-nccl-busbw': 'the size of gradient buckets',
  }),
  ...idleSetting('gradients are always in flat buffers, in buckets of one size', {
    'ddp-bucket-size': 'the size of gradient buckets',
    'ddp-num-buckets': 'the number of gradient buckets',
  }),
  ...idle('the communication library decides how it sends', {
    'nccl-ub': 'registered communication buffers',
    'use-sharp': 'reductions inside the network',
  }),
  ...idleSetting('the communication library decides how it sends', {
    'sharp-enabled-group': 'reductions inside the network',
    'symmetric-ar-type': 'the kind of all-reduce',
    'suggested-communication-unit-size': 'the size of messages',
  }),
  ...idleSetting('NCCL reads its settings from environment variables', {
    'nccl-communicator-config-path': 'settings of NCCL',
  }),
  ...idleSetting('the schedule decides when weight gradients are computed', {
    'wgrad-deferral-limit': 'the time of the weight gradient of the output layer',
  }),
  ...idleSetting('--distributed-timeout-minutes holds for the whole run', {
    'distributed-timeout-seconds-after-init': 'another time-out',
  }),
  ...idleSetting('all ranks communicate through --distributed-backend', {
    'pipeline-model-parallel-comm-backend': 'the library that stages talk through',
  }),
  ...idleSetting('a step waits for the device only where it needs a number', {
    'train-sync-interval': 'waits for the device',
  }),
  ...idleSetting("the launcher's environment variables give every process its number", {
    'local-rank': "this process's number on its host",
  }),
  ...idle('every gradient is checked in each step', {
    'check-for-nan-in-loss-and-grad': 'a check for NaN',
    'no-check-for-nan-in-loss-and-grad': 'no check for NaN',
  }),
};

/** Megatron-LM's flags about processes and their communication. */
export const megatronParallelFlags: Readonly<Record<string, MegatronFlag>> = { ...parallelism };

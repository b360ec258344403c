import { type ForeignFlag, idle, idleSetting, only, refused } from './foreign-flag.js';

/** Processes and what they say to each other. */
const parallelism: Record<string, ForeignFlag> = {
  'data-parallel-sharding-strategy': only(
    ['no_shard'],
    'what is split over data-parallel ranks',
    'parameters are whole on every data-parallel rank',
    'use --use-distributed-optimizer',
  ),
  'num-distributed-optimizer-instances': only(
    ['1'],
    'replicas of the distributed optimizer',
    'optimizer state is split over all data-parallel ranks',
  ),
  'expert-tensor-parallel-size': only(['1'], 'processes per expert', 'there are no experts'),
  'high-priority-stream-groups': {
    what: 'priorities of communication',
    why: 'it is found out or measured, not set',
    harmless: 'always',
    takes: 'many',
  },
  ...refused('the flag has another name', 'use --tensor-model-parallel-size', {
    'model-parallel-size': 'tensor parallelism, in old versions',
  }),
  'context-parallel-size': only(
    ['1'],
    'samples split over processes along the sequence, attention included',
    'attention needs the whole sequence on one tensor-parallel group',
    'use --sequence-parallel with --tensor-model-parallel-size for long sequences',
  ),
  'hierarchical-context-parallel-sizes': only(
    [],
    'levels of context parallelism',
    'there is no context parallelism',
  ),
  'cp-comm-type': only([], 'communication of context parallelism', 'there is no context parallelism'),
  'expert-model-parallel-size': only(['1'], 'experts split over processes', 'there are no experts'),
  'virtual-pipeline-model-parallel-size': only(
    ['1'],
    'chunks per stage',
    'the number of chunks follows from their size',
    'use --num-layers-per-virtual-pipeline-stage',
  ),
  ...refused(
    'embedding and loss count as the work they are, not as one layer each',
    'use --pipeline-model-parallel-layout balanced',
    {
      'account-for-embedding-in-pipeline-split': 'stages of different sizes',
      'account-for-loss-in-pipeline-split': 'stages of different sizes',
    },
  ),
  ...refused('there is no encoder', 'leave it out', {
    'pipeline-model-parallel-split-rank': 'encoder and decoder on different stages',
  }),
  ...refused('parameters are whole on every data-parallel rank', 'use --use-distributed-optimizer', {
    'use-torch-fsdp2': 'fully sharded data parallelism',
    'use-megatron-fsdp': 'fully sharded data parallelism',
    'use-custom-fsdp': 'fully sharded data parallelism',
  }),
  ...idle('who overlaps with whom is decided by the schedule and the layers', {
    'no-overlap-p2p-communication': 'communication of stages that does not overlap',
    'overlap-p2p-communication-warmup-flush': 'overlapped communication of stages',
    'tp-comm-overlap': 'overlapped tensor-parallel communication',
    'disable-tp-comm-overlap-ag': 'overlapped tensor-parallel communication',
    'disable-tp-comm-overlap-rs': 'overlapped tensor-parallel communication',
    'disable-tp-comm-bulk-dgrad': 'overlapped tensor-parallel communication',
    'disable-tp-comm-bulk-wgrad': 'overlapped tensor-parallel communication',
    'delay-wgrad-compute': 'the time of weight gradients',
    'no-gradient-reduce-div-fusion': 'where gradients are averaged',
    'ddp-pad-buckets-for-high-nccl-busbw': 'the size of gradient buckets',
    'defer-embedding-wgrad-compute': 'the time of the weight gradient of the output layer',
    'no-scatter-gather-tensors-in-pipeline': 'boundaries sent whole',
    'no-align-grad-reduce': 'the time of reductions',
    'no-align-param-gather': 'the time of gathers',
    'overlap-param-gather-with-optimizer-step': 'overlapped gathers',
    'use-ring-exchange-p2p': 'communication of stages',
    'batch-p2p-communication': 'communication of stages',
    'use-tp-pp-dp-mapping': 'the order of ranks',
    'lazy-mpu-init': 'late set-up of process groups',
    'use-sharp': 'reductions inside the network',
  }),
  ...idleSetting('it is found out or measured, not set', {
    'ddp-bucket-size': 'the size of gradient buckets',
    'wgrad-deferral-limit': 'the time of the weight gradient of the output layer',
    'distributed-timeout-seconds-after-init': 'another time-out (--distributed-timeout-minutes is the one)',
    'pipeline-model-parallel-comm-backend': 'the library that stages talk through',
    'sharp-enabled-group': 'reductions inside the network',
    'train-sync-interval': 'waits for the device',
    'suggested-communication-unit-size': 'the size of messages',
    'symmetric-ar-type': 'the kind of all-reduce',
    'ddp-num-buckets': 'the number of gradient buckets',
    'local-rank': "this process's number on its host (the launcher says it)",
    'nccl-communicator-config-path': 'settings of NCCL',
  }),
  ...idle('every gradient is checked in each step', {
    'check-for-nan-in-loss-and-grad': 'a check for NaN',
    'no-check-for-nan-in-loss-and-grad': 'no check for NaN',
  }),
};

/** Megatron-LM's flags about processes and their communication. */
export const foreignParallelFlags: Readonly<Record<string, ForeignFlag>> = { ...parallelism };

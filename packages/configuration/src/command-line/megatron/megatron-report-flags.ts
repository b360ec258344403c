import { idle, idleSetting, type MegatronFlag, only, refused } from './megatron-flag.js';

/** Flags about checkpoints. */
const checkpoints: Record<string, MegatronFlag> = {
  ...refused('the flag has another name', 'use --save-interval', {
    'persistent-save-interval': 'steps between two checkpoints',
  }),
  ...idleSetting('there is one format: safetensors with logical names, readable under any layout', {
    'ckpt-format': 'the format of checkpoints',
    'dist-ckpt-format': 'the format of checkpoints',
    'dist-ckpt-strictness': 'how strictly checkpoints are read (always strictly)',
    'ckpt-fully-parallel-load-exchange-algo': 'how checkpoints are read',
    'ckpt-assume-constant-structure-level': 'how checkpoints are written',
  }),
  ...idle('checkpoints are written by all ranks, atomically, with checksums, and read under any layout', {
    'use-dist-ckpt': 'distributed checkpoints',
    'ckpt-fully-parallel-save': 'checkpoints written by all ranks',
    'no-ckpt-fully-parallel-save': 'checkpoints written by some ranks',
    'ckpt-fully-parallel-load': 'checkpoints read by all ranks',
    'ckpt-assume-constant-structure': 'how checkpoints are written',
    'dist-ckpt-optim-fully-reshardable': 'optimizer state for any layout',
    'distrib-optim-fully-reshardable-mem-efficient': 'memory while saving',
  }),
  ...idle('there is one format: safetensors with logical names, readable under any layout', {
    'auto-detect-ckpt-format': 'finding out the format',
    'dist-ckpt-save-pre-mcore-014': 'an old format',
    'no-strict-fsdp-dtensor-load': 'how strictly checkpoints are read',
  }),
  ...idle('--async-save writes in the background', {
    'use-persistent-ckpt-worker': 'the thread of --async-save',
  }),
  ...refused('every checkpoint is kept, or with --keep-last the newest', 'use --keep-last', {
    'save-retain-interval': 'which checkpoints to keep',
    'most-recent-k': 'which checkpoints to keep',
  }),
  ...refused('weights to start from are a checkpoint like any other', 'use --load DIRECTORY --finetune', {
    'pretrained-checkpoint': 'weights to start from',
  }),
  ...refused('--load always reads the master weights', 'leave it out', {
    'load-main-params-from-ckpt': 'master weights to start from',
  }),
  ...refused('checkpoints are written at --save-interval, and each is complete', 'leave it out', {
    'non-persistent-save-interval': 'temporary checkpoints',
    'non-persistent-ckpt-type': 'temporary checkpoints',
  }),
  ...refused('a checkpoint always holds what makes resuming bitwise', 'leave it out', {
    'no-save-optim': 'checkpoints without the optimizer (--save-hf writes weights only)',
    'no-save-rng': 'checkpoints without the random state',
  }),
  ...refused('what happens when --load finds nothing is not a setting', 'leave it out', {
    'exit-on-missing-checkpoint': 'an error when there is nothing to load',
  }),
  ...refused('checkpoints are converted by a command', 'use mtl convert, --load-hf or --save-hf', {
    'ckpt-convert-format': 'conversion of checkpoints',
    'ckpt-convert-save': 'conversion of checkpoints',
    'ckpt-convert-update-legacy-dist-opt-format': 'conversion of checkpoints',
  }),
};

/** Flags about reports, profiles and recovery. */
const reports: Record<string, MegatronFlag> = {
  'error-injection-rate': only(['0'], 'injected errors', 'errors are injected by tests only'),
  'config-logger-dir': only(
    [],
    'files with the configuration',
    'it is in run.json of the --save directory, and saved with every checkpoint',
  ),
  ...idleSetting('what is not sent yet is kept in the --save directory', {
    'wandb-save-dir': 'the folder for files of Weights & Biases',
  }),
  ...idle('loss and gradient norm of every step are checked; --loss-spike-policy decides what follows', {
    'check-for-spiky-loss': 'a check for jumps of the loss',
    'check-for-large-grads': 'a check for large gradients',
  }),
  ...idle('slow ranks are found and named by default', {
    'log-straggler': 'slow processes',
    'disable-straggler-on-startup': 'slow processes',
  }),
  ...refused(
    'reports go to files, Weights & Biases or MLflow',
    'use --wandb-project or --mlflow-tracking-uri',
    {
      'enable-one-logger': 'reports to NVIDIA',
      'one-logger-project': 'reports to NVIDIA',
      'one-logger-run-name': 'reports to NVIDIA',
    },
  ),
  ...idle('no report goes to NVIDIA', {
    'no-one-logger': 'no reports to NVIDIA',
  }),
  ...idle('metrics.jsonl in the --save directory has the progress of every step', {
    'log-progress': 'progress in a file',
  }),
  ...idle('run.json in the --save directory has the number of processes', {
    'log-world-size-to-tensorboard': 'the number of processes in TensorBoard',
  }),
  ...idle('times are measured without barriers', {
    'barrier-with-level-1-timing': 'barriers around times',
    'no-barrier-with-level-1-timing': 'barriers around times',
  }),
  ...idleSetting('the log has one level, and --verbose', { 'logging-level': 'how much is logged' }),
  ...idle('every step reports throughput, time, memory and the gradient norm', {
    'log-throughput': 'throughput in the log',
    'log-timers-to-tensorboard': 'times in TensorBoard',
    'log-memory-to-tensorboard': 'memory in TensorBoard',
    'log-loss-scale-to-tensorboard': 'the loss scale in TensorBoard',
    'no-log-loss-scale-to-tensorboard': 'no loss scale in TensorBoard',
    'log-validation-ppl-to-tensorboard': 'perplexity in TensorBoard',
    'log-batch-size-to-tensorboard': 'the batch size in TensorBoard',
    'no-log-learnig-rate-to-tensorboard': 'no learning rate in TensorBoard',
    'no-log-learning-rate-to-tensorboard': 'no learning rate in TensorBoard',
    'log-learning-rate-to-tensorboard': 'the learning rate in TensorBoard',
  }),
  ...idleSetting('every step reports the same', {
    'timing-log-level': 'how many times are measured',
    'timing-log-option': 'how times are reported',
    'tensorboard-log-interval': 'steps between two points in TensorBoard (1 here)',
    'tensorboard-queue-size': 'buffering of TensorBoard events',
  }),
  ...refused('it is not measured', 'see --metrics-jsonl for what is', {
    'log-params-norm': 'the norm of the weights',
    'log-num-zeros-in-grad': 'zeros in gradients',
    'log-energy': 'energy',
    'log-max-attention-logit': 'the largest attention score',
  }),
  ...idle('profiles change no result; --profile-steps FIRST LAST records one', {
    profile: 'a profile by nsys',
    'use-pytorch-profiler': "PyTorch's profiler",
  }),
  ...idleSetting('profiles change no result; --profile-steps FIRST LAST records one', {
    'profile-step-start': 'a profile of some steps',
    'profile-step-end': 'a profile of some steps',
  }),
  ...refused('other profiles are taken from outside', 'use --profile-steps, node --cpu-prof, perf or nsys', {
    'profile-ranks': 'a profile of some ranks',
    'record-memory-history': 'a record of allocations',
    'memory-snapshot-path': 'a record of allocations',
    'run-workload-inspector-server': 'profiles on demand',
  }),
  ...refused('errors are injected by tests only', 'leave it out', {
    'error-injection-type': 'injected errors',
  }),
  ...refused('checkpoints are written at --save-interval, each complete and once', 'leave it out', {
    replication: 'replicated checkpoints',
  }),
  ...idle('process groups follow from the parallel sizes and --distributed-backend', {
    'enable-gloo-process-groups': 'additional process groups',
    'disable-gloo-process-groups': 'fewer process groups',
  }),
  ...refused('a failed run ends and is started again from its newest complete checkpoint', 'leave it out', {
    'enable-ft-package': 'fault tolerance by another package',
    'calc-ft-timeouts': 'fault tolerance by another package',
    'inprocess-restart': 'restarting inside the process',
  }),
  'yaml-cfg': only([], 'a file of settings', 'the flag has another name', 'use --config FILE'),
};

/** Megatron-LM's flags about checkpoints, reports and recovery. */
export const megatronReportFlags: Readonly<Record<string, MegatronFlag>> = { ...checkpoints, ...reports };

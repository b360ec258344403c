import { type MegatronFlag, refused } from './megatron-flag.js';

/**
 * Flags known by how they begin: whole parts of Megatron-LM that are not here. The longest beginning counts.
 */
export const megatronFlagFamilies: Readonly<Record<string, MegatronFlag>> = {
  ...refused(
    'tokens go to the processes of their experts by the collectives of --distributed-backend',
    'use --moe-token-dispatcher-type alltoall',
    {
      'moe-deepep-': 'the flex dispatcher of tokens',
      'moe-hybridep-': 'the flex dispatcher of tokens',
      'moe-ncclep-': 'the flex dispatcher of tokens',
      'moe-flex-': 'the flex dispatcher of tokens',
    },
  ),
  ...refused('experts are made new; making them from dense layers is not built yet', 'leave it out', {
    'moe-upcycling-': 'experts made from dense layers',
  }),
  ...refused('matmuls are computed in fp32, bf16 or fp16', 'use --bf16', {
    'fp8-': 'training in FP8',
    'fp4-': 'training in FP4',
    'kitchen-': 'quantised training',
    'reuse-grad-buf-for-mxfp8': 'training in FP8',
    'keep-fp8-': 'training in FP8',
  }),
  ...refused('models are GPTs, those of the Llama family among them, and BERTs', 'leave it out', {
    'mamba-': 'state-space layers',
    'disable-mamba-': 'state-space layers',
    'hybrid-': 'hybrid models',
    'heterogeneous-': 'layers of different shapes',
    'retro-': 'retrieval',
    'retriever-': 'retrieval',
    'indexer-': 'retrieval',
    'ict-': 'retrieval',
    'biencoder-': 'retrieval',
    'vision-': 'images',
    'dino-': 'images',
    'swin-': 'images',
  }),
  ...refused('models learn from text only, by predicting its tokens', 'leave it out', {
    'rl-': 'reinforcement learning',
    'grpo-': 'reinforcement learning',
    'langrl-': 'reinforcement learning',
    'kd-': 'distillation',
  }),
  ...refused('models are trained at full size', 'leave it out', {
    'modelopt-': 'model compression',
  }),
  ...refused('every layer has softmax attention', 'leave it out', {
    'linear-': 'linear attention',
  }),
  ...refused(
    'the chat template of the tokenizer decides how conversations are written',
    'use --chat-template FILE',
    {
      'sft-': 'fine-tuning on conversations',
    },
  ),
  ...refused('a training run does not serve requests', 'use mtl generate', { 'inference-': 'generation' }),
  ...refused(
    'training runs are distributed by flags of their own',
    'use --use-distributed-optimizer; --tensor-model-parallel-size and --pipeline-model-parallel-size split the model',
    { deepspeed: "DeepSpeed's engine" },
  ),
  ...refused('parameters are replicated on every data-parallel rank', 'use --use-distributed-optimizer', {
    'fsdp-': 'fully sharded data parallelism',
    'torch-fsdp2-': 'fully sharded data parallelism',
    'megatron-fsdp-': 'fully sharded data parallelism',
  }),
  ...refused('checkpoints are written at --save-interval, each complete and once', 'leave it out', {
    'replication-': 'replicated checkpoints',
    'non-persistent-': 'temporary checkpoints',
  }),
  ...refused('a failed run ends and is started again from its newest complete checkpoint', 'leave it out', {
    'inprocess-': 'restarting inside the process',
    'adlr-autoresume': 'resuming on one cluster of NVIDIA',
    'ft-': 'fault tolerance by another package',
  }),
  ...refused(
    'reports go to files, Weights & Biases or MLflow',
    'use --wandb-project or --mlflow-tracking-uri',
    {
      'one-logger-': 'reports to NVIDIA',
      'app-tag-': 'reports to NVIDIA',
    },
  ),
  'no-pipeline-parallel': {
    what: 'DeepSpeed without pipelines',
    why: '--pipeline-model-parallel-size is the number of stages',
    harmless: 'always',
    takes: 'nothing',
  },
  'straggler-': {
    what: 'how slow processes are found',
    why: 'slow ranks are found and named by default',
    harmless: 'always',
    takes: 'many',
  },
  'tp-comm-': {
    what: 'overlapped tensor-parallel communication',
    why: 'the schedule and the layers decide what overlaps',
    harmless: 'always',
    takes: 'many',
  },
  'disable-tp-comm-': {
    what: 'overlapped tensor-parallel communication',
    why: 'the schedule and the layers decide what overlaps',
    harmless: 'always',
    takes: 'nothing',
  },
};

import { idle, idleSetting, type MegatronFlag, only, refused } from './megatron-flag.js';

/** The recipe of training. */
const recipe: Record<string, MegatronFlag> = {
  'weight-decay-incr-style': only(
    ['constant'],
    'growth of weight decay',
    'weight decay is constant',
    'use --weight-decay',
  ),
  warmup: only([], 'warm-up, in old versions', 'the flag has another name', 'use --lr-warmup-fraction'),
  'muon-scalar-optimizer': only(
    ['adam'],
    'the optimizer of everything but matrices',
    'it is AdamW',
    'leave it out, or use --muon-scalar-optimizer adam',
  ),
  'dataloader-type': only(
    ['single'],
    'the order of samples',
    'samples follow the shuffled index of the dataset',
  ),
  'lr-decay-iterations': only(
    [],
    'decay of the learning rate',
    'the flag has another name',
    'use --lr-decay-iters',
  ),
  ...refused('weight decay is constant', 'use --weight-decay', {
    'start-weight-decay': 'weight decay that grows',
    'end-weight-decay': 'weight decay that grows',
    'apply-wd-to-qk-layernorm': 'weight decay of layer norms',
  }),
  ...refused('the output layer shares its learning rate with the word embedding', 'use --decoupled-lr', {
    'head-lr-mult': 'another learning rate for the head',
  }),
  ...refused('there are AdamW and Muon', 'leave it out', { 'sgd-momentum': 'momentum of SGD' }),
  ...refused(
    'the distributed optimizer divides the state of Muon evenly',
    'use --use-distributed-optimizer',
    {
      'use-layer-wise-distributed-optimizer': 'a distributed optimizer of whole matrices',
    },
  ),
  ...idle('queries, keys and values are split unless --muon-no-split-qkv is given', {
    'muon-split-qkv': 'updates of queries, keys and values one by one',
  }),
  ...refused('the global batch follows one ramp', 'use --rampup-batch-size', {
    'step-batch-size-schedule': 'a global batch that grows in steps',
    'decrease-batch-size-if-needed': 'a global batch made smaller until it divides',
  }),
  ...refused('the flag has another name', 'use --micro-batch-size', {
    'batch-size': 'the batch per process, in old versions',
  }),
  ...refused(
    'a run trains, and evaluates --eval-iters batches now and then',
    'use mtl eval to evaluate without training',
    {
      'skip-train': 'evaluation without training',
      'full-validation': 'evaluation on all validation data',
      'multiple-validation-sets': 'several validation sets',
      'eval-micro-batch-size': 'other batch sizes for evaluation',
      'eval-global-batch-size': 'other batch sizes for evaluation',
      'start-eval-at-iter': 'evaluation from some step on',
      'test-mode': 'a mode for tests',
    },
  ),
  ...refused('the flags of this run decide, and what differs from the checkpoint is named', 'leave it out', {
    'use-mp-args-from-checkpoint-args': 'the parallel sizes of the checkpoint (any layout reads it)',
  }),
  ...idle('SIGTERM, SIGINT and SIGHUP always save and end the run', {
    'exit-signal-handler': 'saving at SIGTERM',
    'exit-signal-handler-for-training': 'saving at SIGTERM',
  }),
  ...refused('weights and dropout follow from --seed and the global coordinates alone', 'leave it out', {
    'data-parallel-random-init': 'other initial weights on each rank',
    'inference-rng-tracker': 'another random state',
  }),
  ...refused('conversations have a flag of their own', 'use mtl sft, or --train-data FILE.jsonl', {
    sft: 'fine-tuning on conversations',
  }),
  ...refused('it needs a model or loss that is not here', 'leave it out', {
    'perform-rl-step': 'reinforcement learning',
    'fim-data': 'fill-in-the-middle samples',
    'fim-rate': 'fill-in-the-middle samples',
    'kd-teacher-load': 'distillation',
    'kd-distill-cfg': 'distillation',
    'retro-project-dir': 'retrieval',
    'retro-add-retriever': 'retrieval',
    'img-h': 'images',
    'img-w': 'images',
    'patch-dim': 'images',
    'num-classes': 'images',
    'num-channels': 'images',
    'iter-per-epoch': 'images',
    'classes-fraction': 'images',
    'data-per-class-fraction': 'images',
    'mask-type': 'images',
    'mask-factor': 'images',
    'bert-load': 'retrieval',
    'titles-data-path': 'retrieval',
    'evidence-data-path': 'retrieval',
    'block-data-path': 'retrieval',
    'embedding-path': 'retrieval',
    'query-in-block-prob': 'retrieval',
    'use-one-sent-docs': 'retrieval',
    task: 'evaluation tasks',
  }),
};

/** Corpora and tokenizers. */
const data: Record<string, MegatronFlag> = {
  'data-impl': only(
    ['mmap', 'infer'],
    'the format of datasets, in old versions',
    'datasets are .bin and .idx files',
    'prepare one with mtl data prepare',
  ),
  'mid-level-dataset-surplus': only(
    ['0.005'],
    'samples built beyond what a blend needs',
    'it is always 0.005',
  ),
  'sample-rate': only(
    ['1', '1.0'],
    'a share of the samples',
    'all samples are used',
    'use --train-iters or --split',
  ),
  ...refused('one --data-path is divided by --split', 'use --data-path and --split', {
    'train-data-path': 'a dataset for training only',
    'valid-data-path': 'a dataset for validation only',
    'test-data-path': 'a dataset for tests only',
    'per-split-data-args-path': 'datasets by part',
    'data-args-path': 'a file with --data-path',
  }),
  'mock-data': {
    what: 'made-up samples',
    why: 'datasets are read from files',
    instead: 'name one with --data-path; mtl data prepare writes them',
    harmlessWith: { flag: 'data-path', why: 'only samples of --data-path are read, and none by a dry run' },
    takes: 'nothing',
  },
  ...refused('datasets are read from files', 'prepare one with mtl data prepare', {
    'object-storage-cache-path': 'datasets in object stores',
    'dataloader-save': "the reader's state in files of its own (checkpoints hold it)",
  }),
  'tiktoken-pattern': {
    what: 'the pattern of a tiktoken tokenizer',
    why: 'the tokenizer is described by its own files',
    instead: 'use --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer.json',
    harmlessWith: {
      flag: 'tokenizer-type',
      why: 'the tokenizer that --tokenizer-type names has no such pattern',
    },
    takes: 'one',
  },
  ...refused(
    'the tokenizer is described by its own files',
    'use --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer.json',
    {
      'tiktoken-num-special-tokens': 'a tiktoken tokenizer',
      'tiktoken-special-tokens': 'a tiktoken tokenizer',
      'tokenizer-prompt-format': 'prompts of a tokenizer',
      'special-tokens': 'special tokens of a tokenizer',
      'tokenizer-metadata': 'a description of a tokenizer',
      'tokenizer-special-tokens': 'special tokens of a tokenizer',
      'tokenizer-name-or-path': "a tokenizer by its name on a server, in other projects' versions",
    },
  ),
  ...refused('the padded vocabulary follows from the tokenizer', 'use --make-vocab-size-divisible-by', {
    'padded-vocab-size': 'the size of the padded vocabulary',
    'vocab-extra-ids': 'more token ids',
  }),
  ...idle('the loss is always the mean over all tokens of the global batch', {
    'calculate-per-token-loss': 'a mean over tokens',
    'ddp-average-in-collective': 'where gradients are averaged',
  }),
  ...idle('the tokenizer is always the one that the flags name', {
    'no-use-tokenizer-model-from-checkpoint-args': 'the tokenizer of the flags instead of the checkpoint',
    'use-tokenizer-model-from-checkpoint-args':
      'the tokenizer of the checkpoint, for where no flag names one',
    'trust-remote-code': 'code that comes with a tokenizer',
    'legacy-tokenizer': 'another implementation of tokenizers',
    'allow-ambiguous-pad-tokens': 'padding that shares an id with another token',
  }),
  ...idleSetting('data is read ahead by what a step takes, not by a number of processes', {
    'num-workers': 'processes that read data',
    'num-dataset-builder-threads': 'threads that build indices',
    'data-sharding': 'who reads which sample',
    's3-cache-path': 'datasets in object stores',
  }),
  ...idle('files are mapped or read as it suits', {
    'mmap-bin-files': 'files that are mapped',
    'no-mmap-bin-files': 'files that are not mapped',
    'mmap-warmup': 'files that are read once before, in old versions',
    'create-attention-mask-in-dataloader': 'who makes the attention mask',
    'no-create-attention-mask-in-dataloader': 'who makes the attention mask',
    'enable-msc': 'datasets in object stores',
    'disable-msc': 'datasets in object stores',
    'no-data-sharding': 'who reads which sample',
  }),
};

/** Megatron-LM's flags about recipes, corpora and tokenizers. */
export const megatronTrainingFlags: Readonly<Record<string, MegatronFlag>> = { ...recipe, ...data };

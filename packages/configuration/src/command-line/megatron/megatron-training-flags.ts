import { idle, idleSetting, type MegatronFlag, only, refused } from './megatron-flag.js';

/** Flags about the recipe of training. */
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
  }),
  ...refused('norms and biases have no weight decay', 'leave it out', {
    'apply-wd-to-qk-layernorm': 'weight decay of the norms of queries and keys',
  }),
  ...refused('the output layer shares its learning rate with the word embedding', 'use --decoupled-lr', {
    'head-lr-mult': 'another learning rate for the head',
  }),
  ...refused('the optimizers are AdamW and Muon', 'leave it out, or choose with --optimizer', {
    'sgd-momentum': 'momentum of SGD',
  }),
  ...idle('queries, keys and values are split unless --muon-no-split-qkv is given', {
    'muon-split-qkv': 'updates of queries, keys and values one by one',
  }),
  ...refused('the global batch follows one ramp', 'use --rampup-batch-size', {
    'step-batch-size-schedule': 'a global batch that grows in steps',
  }),
  ...refused('the flag has another name', 'use --micro-batch-size', {
    'batch-size': 'the batch per process, in old versions',
  }),
  ...refused(
    'a run trains, and evaluates --eval-iters batches now and then',
    'use mtl eval, which evaluates a checkpoint without training',
    {
      'skip-train': 'evaluation without training',
      'full-validation': 'evaluation on all validation data',
      'multiple-validation-sets': 'several validation sets',
    },
  ),
  ...refused(
    'evaluation uses the batch sizes of training',
    'leave it out; --eval-iters is the number of batches',
    {
      'eval-micro-batch-size': 'other batch sizes for evaluation',
      'eval-global-batch-size': 'other batch sizes for evaluation',
    },
  ),
  ...refused('every --eval-interval steps are evaluated, from the first', 'use --eval-interval', {
    'start-eval-at-iter': 'evaluation from some step on',
  }),
  ...refused('a run trains and does not test itself', 'leave it out', {
    'test-mode': 'a mode for tests',
  }),
  ...refused('evaluation tasks have a command of their own', 'use mtl eval --task', {
    task: 'evaluation tasks',
  }),
  ...refused('samples are the text of the dataset, in its order', 'leave it out', {
    'fim-data': 'fill-in-the-middle samples',
    'fim-rate': 'fill-in-the-middle samples',
  }),
  ...refused('the flags of this run decide, and what differs from the checkpoint is named', 'leave it out', {
    'use-mp-args-from-checkpoint-args': 'the parallel sizes of the checkpoint (any layout reads it)',
  }),
  ...idle('SIGTERM, SIGINT and SIGHUP always save and end the run', {
    'exit-signal-handler': 'saving at SIGTERM',
    'exit-signal-handler-for-training': 'saving at SIGTERM',
  }),
  ...refused('weights and dropout follow from --seed and the global coordinates alone', 'leave it out', {
    'inference-rng-tracker': 'another random state',
  }),
  ...refused('conversations have a flag of their own', 'use mtl sft, or --train-data FILE.jsonl', {
    sft: 'fine-tuning on conversations',
  }),
  ...refused('it needs a model or loss that is not here', 'leave it out', {
    'perform-rl-step': 'reinforcement learning',
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
  }),
};

/** Flags about corpora and tokenizers. */
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
  }),
  ...refused('datasets are read from the file system', 'copy it there and name it with --data-path', {
    'object-storage-cache-path': 'datasets in object stores',
  }),
  ...refused('a checkpoint holds the position in the data', 'leave it out', {
    'dataloader-save': "the reader's state in files of its own",
  }),
  ...refused('datasets are named by flags', 'use --data-path, on the command line or in --config FILE', {
    'data-args-path': 'a file with --data-path',
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
      'special-tokens': 'special tokens of a tokenizer',
      'tokenizer-metadata': 'a description of a tokenizer',
      'tokenizer-special-tokens': 'special tokens of a tokenizer',
      'tokenizer-name-or-path': "a tokenizer by its name on a server, in other projects' versions",
    },
  ),
  ...refused('the padded vocabulary follows from the tokenizer', 'use --make-vocab-size-divisible-by', {
    'padded-vocab-size': 'the size of the padded vocabulary',
  }),
  ...refused('token ids are those of the tokenizer', "add the tokens to the tokenizer's file", {
    'vocab-extra-ids': 'more token ids',
  }),
  ...refused(
    'the chat template of the tokenizer decides how conversations are written',
    'use --chat-template FILE',
    { 'tokenizer-prompt-format': 'prompts of a tokenizer' },
  ),
  ...idle('gradients are summed: the loss is divided by the tokens of the global batch before', {
    'ddp-average-in-collective': 'where gradients are averaged',
  }),
  ...idle('the loss is always the mean over all tokens of the global batch', {
    'calculate-per-token-loss': 'a mean over tokens',
  }),
  ...idle('code that comes with a tokenizer is never run', {
    'trust-remote-code': 'code that comes with a tokenizer',
  }),
  ...idle('tokenizers have one implementation', {
    'legacy-tokenizer': 'another implementation of tokenizers',
  }),
  ...idle('padding is masked by its position, not by its token id', {
    'allow-ambiguous-pad-tokens': 'padding that shares an id with another token',
  }),
  ...idle('the tokenizer is the one that the flags name, and that of the checkpoint where they name none', {
    'no-use-tokenizer-model-from-checkpoint-args': 'the tokenizer of the flags instead of the checkpoint',
    'use-tokenizer-model-from-checkpoint-args':
      'the tokenizer of the checkpoint, for where no flag names one',
  }),
  ...idleSetting('data is read ahead by what a step takes, not by a number of processes', {
    'num-workers': 'processes that read data',
  }),
  ...idleSetting('each index is built once and kept; the number of threads does not change it', {
    'num-dataset-builder-threads': 'threads that build indices',
  }),
  ...idle('kernels compute the attention mask from positions; no mask is ever stored or read', {
    'create-attention-mask-in-dataloader': 'an attention mask made where data is read',
    'no-create-attention-mask-in-dataloader': 'an attention mask made on the device',
  }),
  ...idleSetting('datasets are read from the file system, never from an object store', {
    's3-cache-path': 'datasets in object stores',
  }),
  ...idle('datasets are read from the file system, never from an object store', {
    'enable-msc': 'datasets in object stores',
    'disable-msc': 'datasets in object stores',
  }),
  ...idle('files are mapped or read as it suits', {
    'mmap-bin-files': 'files that are mapped',
    'no-mmap-bin-files': 'files that are not mapped',
    'mmap-warmup': 'files that are read once before, in old versions',
  }),
};

/** Megatron-LM's flags about recipes, corpora and tokenizers. */
export const megatronTrainingFlags: Readonly<Record<string, MegatronFlag>> = { ...recipe, ...data };

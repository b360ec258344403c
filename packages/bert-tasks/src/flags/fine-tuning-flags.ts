import type { OptionsOf } from '@mtl/configuration';
import {
  bertFlags,
  checkpointFlags,
  choice,
  count,
  dataFlags,
  findSchema,
  fraction,
  loggingFlags,
  optimizerFlags,
  parallelFlagsOfTasks,
  recomputeFlags,
  redescribed,
  text,
  texts,
  toggle,
  trackingFlags,
  trainingFlags,
} from '@mtl/configuration/flags';
import { ConfigurationError } from '@mtl/errors';
import type * as z from 'zod';
import { fineTuningTaskNames } from './fine-tuning-configuration.js';
import { fineTuningPresetNames } from './fine-tuning-presets.js';

/**
 * Makes the flag for an architecture size, such as `num-layers`. The flag applies only to a model from
 * scratch.
 */
const sizeOfScratch = (name: 'num-layers' | 'hidden-size' | 'num-attention-heads', what: string) =>
  redescribed(findSchema(name) as z.ZodNumber, {
    description: `${what} of a model from scratch.`,
    default: undefined,
  });

/** The flags for the task and its files, and for the model from which fine-tuning starts. */
const ofTask = {
  task: choice(fineTuningTaskNames, 'The task.'),
  'data-dir': text("The task's files under their official names.", { placeholder: 'DIR' }),
  'train-data': text('The file, or part of RACE, to train on, instead of --data-dir.', {
    placeholder: 'PATH',
  }),
  'valid-data': texts(
    'The files, or parts of RACE, to evaluate on after every epoch, instead of --data-dir.',
    { placeholder: 'PATHS...' },
  ),
  'test-data': texts('Files to predict at the end; labels are not needed.', { placeholder: 'PATHS...' }),
  'squad-version': choice(['1.1', '2.0'], 'Which files of SQuAD.'),
  load: redescribed(checkpointFlags.load, {
    description: 'Starts from checkpoints of a BERT: the directory of its --save.',
  }),
  'ckpt-step': redescribed(checkpointFlags['ckpt-step'], {
    description: 'The iteration.',
    defaultText: 'the newest complete checkpoint',
  }),
  'load-hf': redescribed(checkpointFlags['load-hf'], {
    description: 'Starts from a BERT directory of the transformers library.',
  }),
  'from-scratch': toggle('Uses the architecture and tokenizer of that model, with initial weights.'),
  'num-layers': sizeOfScratch('num-layers', 'Layers'),
  'hidden-size': sizeOfScratch('hidden-size', 'Features'),
  'num-attention-heads': sizeOfScratch('num-attention-heads', 'Attention heads'),
  'layer-norm-placement': redescribed(bertFlags['layer-norm-placement'], {
    description: 'Where a model from scratch has its layer norms.',
    default: undefined,
    defaultText: 'pre',
  }),
  'tokenizer-type': redescribed(dataFlags['tokenizer-type'], {
    description: "How text becomes tokens, in place of the model's own tokenizer.",
  }),
  'tokenizer-model': dataFlags['tokenizer-model'],
  'vocab-file': redescribed(dataFlags['vocab-file'], {
    description: 'The vocab.txt of BertWordPiece.',
    defaultText: undefined,
  }),
};

/** The flags for learning and for the locations of results. */
const ofLearning = {
  preset: choice(fineTuningPresetNames, "The paper's batch, rate and epochs for a model.", {
    defaultText: 'megatron-336m',
  }),
  epochs: count('Passes over the training data.', { defaultText: "the preset's" }),
  'global-batch-size': redescribed(trainingFlags['global-batch-size'], {
    description: 'Samples per step.',
    defaultText: "the preset's",
  }),
  lr: redescribed(optimizerFlags.lr, {
    description: 'Highest learning rate.',
    defaultText: "the preset's",
  }),
  dropout: fraction('Dropout of hidden states and attention.', { defaultText: "the model's" }),
  'seq-length': redescribed(dataFlags['seq-length'], {
    description: 'Tokens of a sequence.',
    defaultText: '128; 512 of RACE, 384 of SQuAD',
  }),
  bf16: redescribed(trainingFlags.bf16, { description: 'Computes in bfloat16.', defaultText: 'float32' }),
  fp16: redescribed(trainingFlags.fp16, { description: 'Computes in float16.' }),
  save: redescribed(checkpointFlags.save, {
    description: 'Where checkpoints, results and predictions are saved.',
    defaultText: undefined,
  }),
  'save-hf': redescribed(checkpointFlags['save-hf'], {
    description:
      'Where the fine-tuned model is written for the transformers library; one folder per seed if there are several.',
  }),
  resume: toggle('Resumes the runs in --save.'),
  'save-interval': redescribed(checkpointFlags['save-interval'], {
    description: 'Steps between checkpoints.',
    defaultText: 'the steps of an epoch',
  }),
  'exit-interval': redescribed(trainingFlags['exit-interval'], {
    description: 'Ends after a step whose number is a multiple of this.',
  }),
  'metrics-jsonl': redescribed(loggingFlags['metrics-jsonl'], {
    description:
      'A copy of the metrics.jsonl in the folder of each seed: one JSON object per step and per evaluation; one file per seed if there are several.',
  }),
};

/** The flags with a default. Every fine-tuning run has values for them. */
const withDefaults = {
  'micro-batch-size': redescribed(trainingFlags['micro-batch-size'], {
    description: 'Samples computed at once.',
    default: 8,
  }),
  'min-lr': redescribed(optimizerFlags['min-lr'], { description: 'Lowest learning rate.' }),
  'lr-decay-style': choice(['linear', 'cosine', 'constant'], 'How the learning rate falls.', {
    default: 'linear',
  }),
  'lr-warmup-fraction': redescribed(optimizerFlags['lr-warmup-fraction'], {
    description: 'Share of the steps with a rising learning rate.',
    default: 0.065,
  }),
  'weight-decay': redescribed(optimizerFlags['weight-decay'], { description: 'Weight decay of AdamW.' }),
  'clip-grad': redescribed(optimizerFlags['clip-grad'], {
    description: 'Clips gradients to this norm; 0: no clipping.',
  }),
  'doc-stride': count('Tokens between the windows of SQuAD.', { default: 128 }),
  'max-query-length': count('Maximum number of tokens of a question of SQuAD.', { default: 64 }),
  'max-answer-length': count('Maximum number of tokens of an answer of SQuAD.', { default: 30 }),
  'keep-last': redescribed(checkpointFlags['keep-last'], {
    description: 'Number of checkpoints to keep.',
    default: 1,
    defaultText: undefined,
  }),
  'log-interval': redescribed(loggingFlags['log-interval'], {
    description: 'Steps between lines of progress.',
    default: 50,
  }),
};

/** The flags for devices, layout, recomputation and services. They mean the same as in pretraining. */
const asInPretraining = {
  ...trackingFlags,
  ...recomputeFlags,
  ...parallelFlagsOfTasks,
  // in fine-tuning, the size of the model does not determine the number of threads
  threads: redescribed(parallelFlagsOfTasks.threads, {
    description: 'CPU threads per process.',
    defaultText: "its share of the host's cores",
  }),
};

/**
 * All fine-tuning flags. The options, help and checks of fine-tuning are derived from these flags.
 * Pretraining flags are declared separately.
 */
export const fineTuningFlags = { ...ofTask, ...ofLearning, ...withDefaults, ...asInPretraining };

/**
 * The options of fine-tuning in TypeScript. Each option has the name of a flag of `mtl finetune` in camel
 * case, and the flag's meaning, range and default.
 */
export type FineTuningOptions = OptionsOf<typeof fineTuningFlags> & {
  /** The random seeds. Each seed gets its own training run. Default: 1234. */
  readonly seeds?: readonly number[] | undefined;
};

/** Fine-tuning options with a value for every option that has a default. */
export type CompleteFineTuningOptions = FineTuningOptions & {
  readonly [Name in keyof OptionsOf<typeof withDefaults>]-?: NonNullable<
    OptionsOf<typeof withDefaults>[Name]
  >;
};

/** The names of the flags with defaults. */
export const defaultedFineTuningFlags = Object.keys(withDefaults) as readonly (keyof typeof withDefaults)[];

/** A required flag that was not given. */
interface MissingFlag {
  /** The flag and its alternative, such as `--load (or --load-hf)`. */
  readonly name: string;
  /** The flag with a placeholder for its value, such as `--load DIR`. */
  readonly usage: string;
}

/**
 * Returns the required flags that are missing for a fine-tuning run: flags for the files to train and
 * evaluate on, and for the model.
 *
 * @throws ConfigurationError MTL_FLAG_CONFLICT for flags that contradict each other
 */
export function missingFineTuningFlags(options: FineTuningOptions): readonly MissingFlag[] {
  refuseConflicts(options);
  const noTask = { name: '--task', usage: '--task mnli|qqp|race|squad' };
  return [
    ...(options.task === undefined ? [noTask] : []),
    ...missingFiles(options),
    ...missingStart(options),
  ];
}

function refuseConflicts({ task, squadVersion, bf16, fp16, ...options }: FineTuningOptions): void {
  const conflict = (what: string, remedy = 'leave out one'): never => {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', what, { remedy });
  };
  if (squadVersion !== undefined && task !== undefined && task !== 'squad') {
    conflict(
      `--squad-version does not go with --task ${task}`,
      'leave --squad-version out, or pass --task squad',
    );
  }
  if (bf16 === true && fp16 === true) conflict('--bf16 and --fp16: a model computes in only one');
  const { load, loadHf, numLayers, hiddenSize, numAttentionHeads } = options;
  const model = load === undefined ? loadHf && '--load-hf' : '--load';
  if (model !== undefined && (numLayers ?? hiddenSize ?? numAttentionHeads) !== undefined) {
    conflict(`${model} and the sizes of a model from scratch name more than one model`);
  }
}

function missingFiles({ dataDir, trainData, validData }: FineTuningOptions): readonly MissingFlag[] {
  if (dataDir !== undefined) return [];
  if (trainData === undefined && validData === undefined) {
    return [{ name: '--data-dir (or --train-data and --valid-data)', usage: '--data-dir DIR' }];
  }
  return [
    ...(trainData === undefined ? [{ name: '--train-data', usage: '--train-data PATH' }] : []),
    ...(validData === undefined ? [{ name: '--valid-data', usage: '--valid-data PATHS...' }] : []),
  ];
}

/**
 * Returns the missing flags for the model to start from. A model from scratch needs its sizes and a
 * tokenizer; a checkpoint or a directory of the transformers library already contains both.
 */
function missingStart(options: FineTuningOptions): readonly MissingFlag[] {
  const { load, loadHf, numLayers, hiddenSize, numAttentionHeads, tokenizerType } = options;
  if (load !== undefined || loadHf !== undefined) return [];
  const sizes = {
    '--num-layers': numLayers,
    '--hidden-size': hiddenSize,
    '--num-attention-heads': numAttentionHeads,
  };
  const missing = Object.entries(sizes).filter(([, size]) => size === undefined);
  if (missing.length === 3) {
    const name = '--load (or --load-hf, or --num-layers, --hidden-size and --num-attention-heads)';
    return [{ name, usage: '--load DIR' }];
  }
  return [
    ...missing.map(([name]) => ({ name, usage: `${name} N` })),
    ...(tokenizerType === undefined
      ? [{ name: '--tokenizer-type', usage: '--tokenizer-type BertWordPieceLowerCase|BertWordPieceCase' }]
      : []),
  ];
}

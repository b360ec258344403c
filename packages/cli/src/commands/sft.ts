import type { Flags, ParsedFlags } from '@mtl/configuration';
import { ConfigurationError, listedNames } from '@mtl/errors';
import type { Command } from 'commander';
import { flagOfModel } from '../command-line/model-flags.js';
import { summaries } from './summaries.js';
import { trainingCommand } from './train.js';

const description =
  'Fine-tunes a GPT or a model of the Llama family on conversations: mtl sft --model DIR --train-data chats.jsonl ' +
  '--validation-fraction 0.05 --seq-length 2048 --save runs/chat. --model names a directory of the transformers ' +
  'library or a model of the Hub, org/name, which is fetched (both mean --load-hf), or checkpoints of a training run (--load DIR --finetune); --load DIR alone ' +
  'continues a run of this command. The loss counts only the words of the assistant, which the chat template of ' +
  'the tokenizer marks. Conversations are packed into samples and do not attend to each other. All flags of ' +
  'training apply. ' +
  'Defaults of this command: --epochs 3, --lr 2e-5, --lr-warmup-fraction 0.03, --micro-batch-size 4.';

/** Default flags of a fine-tuning run on conversations. */
const defaults: Flags = { epochs: 3, lr: 2e-5, 'lr-warmup-fraction': 0.03, 'micro-batch-size': 4 };

/** Creates the command `mtl sft`, the training program with defaults for fine-tuning on conversations. */
export function sftCommand(): Command {
  return trainingCommand({
    name: 'sft',
    summary: summaries.sft,
    description,
    model: 'gpt',
    program: 'mtl sft',
    defaults,
    checkFlags: checkSftFlags,
    rewriteFlags: flagsOfModel,
  });
}

/**
 * Checks that the flags name a model and conversations.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED, which names the missing flags
 */
export function checkSftFlags({ values }: Pick<ParsedFlags, 'values'>): void {
  const { load, 'load-hf': loadHuggingFace, finetune, 'train-data': trainData } = values;
  const hasModel = load !== undefined || loadHuggingFace !== undefined;
  // a resumed run finds its conversations in the flags that the checkpoint stores
  const hasData = trainData !== undefined || (load !== undefined && finetune !== true);
  if (hasModel && hasData) return;
  const missing = [
    ...(hasModel
      ? []
      : [
          [
            '--model',
            '--model DIR: a directory of the transformers library, or the --save of a training run',
          ],
        ]),
    ...(hasData ? [] : [['--train-data', '--train-data FILE.jsonl: a conversation on each line']]),
  ];
  const names = missing.map(([name]) => name!);
  throw new ConfigurationError(
    'MTL_FLAG_REQUIRED',
    `mtl sft: ${listedNames(names)} ${names.length === 1 ? 'is' : 'are'} missing`,
    {
      expected: missing.map(([, usage]) => usage).join('; '),
      ...(hasModel ? {} : { remedy: 'pass --model DIR, or --load DIR to go on with a run of mtl sft' }),
      details: { missing: names },
    },
  );
}

/**
 * Replaces `--model DIR` on a command line. For a directory of the transformers library or a model of the
 * Hub, the replacement is `--load-hf DIR`; for checkpoints, it is `--load DIR --finetune`.
 *
 * @throws ConfigurationError MTL_FLAG_VALUE_MISSING, MTL_FLAG_REPEATED, MTL_FLAG_CONFLICT, MTL_MODEL_NONE
 */
export function flagsOfModel(argv: readonly string[]): readonly string[] {
  const places = argv.flatMap((word, at) => (/^--model(=|$)/.test(word) ? [at] : []));
  const [at, second] = places;
  if (at === undefined) return argv;
  if (second !== undefined) {
    throw new ConfigurationError('MTL_FLAG_REPEATED', '--model is given twice', { expected: 'one model' });
  }
  const isAttached = argv[at] !== '--model';
  const directory = isAttached ? argv[at]!.slice('--model='.length) : argv[at + 1];
  if (directory === undefined || directory === '' || directory.startsWith('--')) {
    throw new ConfigurationError('MTL_FLAG_VALUE_MISSING', '--model needs a value', {
      expected: '--model DIR: a directory of the transformers library, or checkpoints',
    });
  }
  const other = argv.find((word) => /^--(load|load[-_]hf)(=|$)/.test(word));
  if (other !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `--model ${directory} and ${other} name two models`, {
      remedy: 'leave out one: --model to begin, --load to go on with a run',
    });
  }
  const isHuggingFace = flagOfModel(directory, '--model') === 'load-hf';
  const flags = isHuggingFace ? ['--load-hf', directory] : ['--load', directory, '--finetune'];
  return [...argv.slice(0, at), ...flags, ...argv.slice(at + (isAttached ? 1 : 2))];
}

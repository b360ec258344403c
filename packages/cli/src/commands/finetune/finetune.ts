import {
  type ParallelFlags,
  parallelFlagNames,
  type RecomputeFlags,
  recomputeFlagNames,
  type TrackingFlags,
  trackingFlagNames,
} from '@mtl/configuration';
import { tokenizerTypes } from '@mtl/data';
import {
  type FineTuningReport,
  fineTune,
  fineTuningPresetNames,
  fineTuningTaskNames,
  joinProcesses,
} from '@mtl/recipes';
import { type Command, Option } from 'commander';
import { type MtlCommand, newCommand } from '../../command-line/new-command.js';
import { choiceOption, countOption, numberOption } from '../../command-line/option-values.js';
import { trainingFlagOptions, trainingFlagValues } from '../../command-line/training-flag-options.js';
import { configurationOfFlags, type FinetuneFlags, seedList } from './finetune-flags.js';
import { formatFineTuning } from './format-fine-tuning.js';
import { missingFinetuneFlags } from './missing-finetune-flags.js';

const examples = `
Files, as their authors give them: MNLI (train.tsv, dev_matched.tsv, dev_mismatched.tsv), QQP (train.tsv, dev.tsv), RACE
(train, dev), SQuAD (train-v1.1.json, dev-v1.1.json, or v2.0). With --save every seed has its folder of checkpoints,
predictions in the task's official format, and result.json; report.json holds all of them and the medians.

Examples:
  mtl finetune --task mnli --data-dir glue/MNLI --load runs/bert --seeds 1,2,3,4,5 --save runs/mnli
  mtl finetune --task squad --squad-version 2.0 --data-dir squad --load-hf bert-large-uncased --micro-batch-size 4
  mtl finetune --task race --train-data RACE/train --valid-data RACE/dev --test-data RACE/test --load runs/bert
  mtl run --nproc-per-node 2 mtl -- finetune --task qqp --data-dir glue/QQP --load runs/bert \\
    --pipeline-model-parallel-size 2`;

/** `mtl finetune`: trains a BERT for a task of the papers, and scores it. */
export function finetuneCommand(): Command {
  const command = newCommand('finetune', 'Fine-tunes a BERT for MNLI, QQP, RACE or SQuAD, and scores it.');
  return addTrainingFlags(addPlaces(addHyperParameters(addModel(command))))
    .requires(missingFinetuneFlags)
    .option('--json', 'Prints JSON.')
    .addHelpText('after', examples)
    .action(runFinetune);
}

function addModel(command: MtlCommand): MtlCommand {
  return command
    .addOption(choiceOption('--task <name>', 'The task.', fineTuningTaskNames).makeOptionMandatory())
    .option('--data-dir <dir>', "The task's files under their official names.")
    .option('--train-data <path>', 'The file, or part of RACE, to train on, instead of --data-dir.')
    .option(
      '--valid-data <paths...>',
      'The files, or parts of RACE, to evaluate on after every epoch, instead of --data-dir.',
    )
    .option('--test-data <paths...>', 'Files to predict at the end; labels are not needed.')
    .addOption(choiceOption('--squad-version <version>', 'Which files of SQuAD.', ['1.1', '2.0']))
    .option('--load <dir>', 'Starts from checkpoints of a BERT: the directory of its --save.')
    .addOption(
      countOption('--ckpt-step <n>', 'The iteration. [the newest complete checkpoint]', { least: 0 }),
    )
    .option('--load-hf <dir>', 'Starts from a BERT directory of the transformers library.')
    .option('--from-scratch', 'Uses the architecture and tokenizer of that model, with initial weights.')
    .addOption(countOption('--num-layers <n>', 'Layers of a model from scratch.'))
    .addOption(countOption('--hidden-size <n>', 'Features of a model from scratch.'))
    .addOption(countOption('--num-attention-heads <n>', 'Attention heads of a model from scratch.'))
    .addOption(
      choiceOption(
        '--layer-norm-placement <where>',
        'Where a model from scratch has its layer norms. [pre]',
        ['pre', 'post'],
      ),
    )
    .addOption(
      choiceOption(
        '--tokenizer-type <name>',
        "How text becomes tokens, in place of the model's own tokenizer.",
        tokenizerTypes,
      ),
    )
    .option('--tokenizer-model <path>', 'The tokenizer.json of a HuggingFaceTokenizer, or its folder.')
    .option('--vocab-file <file>', 'The vocab.txt of BertWordPiece.');
}

function addHyperParameters(command: MtlCommand): MtlCommand {
  return command
    .addOption(
      choiceOption(
        '--preset <name>',
        "The paper's batch, rate and epochs for a model. [megatron-336m]",
        fineTuningPresetNames,
      ),
    )
    .addOption(countOption('--epochs <n>', 'Passes over the training data.'))
    .addOption(countOption('--global-batch-size <n>', 'Samples per step.'))
    .addOption(countOption('--micro-batch-size <n>', 'Samples computed at once.').default(8))
    .addOption(numberOption('--lr <rate>', 'Highest learning rate.', { above: 0 }))
    .addOption(numberOption('--min-lr <rate>', 'Lowest learning rate.', { least: 0 }).default(0))
    .addOption(
      choiceOption('--lr-decay-style <name>', 'How the learning rate falls.', [
        'linear',
        'cosine',
        'constant',
      ]).default('linear'),
    )
    .addOption(
      numberOption('--lr-warmup-fraction <share>', 'Share of the steps with a rising learning rate.', {
        least: 0,
        most: 1,
      }).default(0.065),
    )
    .addOption(numberOption('--weight-decay <x>', 'Weight decay of AdamW.', { least: 0 }).default(0.01))
    .addOption(
      numberOption('--clip-grad <norm>', 'Clips gradients to this norm; 0: no clipping.', {
        least: 0,
      }).default(1),
    )
    .addOption(
      numberOption('--dropout <p>', "Dropout of hidden states and attention. [the model's]", {
        least: 0,
        most: 0.99,
      }),
    )
    .addOption(countOption('--seq-length <n>', 'Tokens of a sequence. [128; 512 of RACE, 384 of SQuAD]'))
    .addOption(countOption('--doc-stride <n>', 'Tokens between the windows of SQuAD.').default(128))
    .addOption(
      countOption('--max-query-length <n>', 'Maximum number of tokens of a question of SQuAD.').default(64),
    )
    .addOption(
      countOption('--max-answer-length <n>', 'Maximum number of tokens of an answer of SQuAD.').default(30),
    )
    .option('--seeds <list>', 'Seeds, one training run each: 1,2,3,4,5 as in the paper.', seedList, [1234]);
}

function addPlaces(command: MtlCommand): MtlCommand {
  return command
    .option('--save <dir>', 'Where checkpoints, results and predictions are saved.')
    .option(
      '--save-hf <dir>',
      'Where the fine-tuned model is written for the transformers library; one folder per seed if there are several.',
    )
    .option('--resume', 'Resumes the runs in --save.')
    .addOption(countOption('--save-interval <n>', 'Steps between checkpoints. [those of an epoch]'))
    .addOption(countOption('--keep-last <n>', 'Number of checkpoints to keep.').default(1))
    .addOption(countOption('--exit-interval <n>', 'Ends after a step whose number is a multiple of this.'))
    .addOption(countOption('--log-interval <n>', 'Steps between lines of progress.').default(50))
    .option(
      '--metrics-jsonl <file>',
      'A copy of the metrics.jsonl in the folder of each seed: one JSON object per step and per evaluation; one file per seed if there are several.',
    )
    .option('--bf16', 'Computes in bfloat16. [float32]')
    .option('--fp16', 'Computes in float16.');
}

/**
 * Where it runs, how processes share it, what is computed again and who is told: the flags of pretraining.
 */
function addTrainingFlags(command: MtlCommand): MtlCommand {
  const names = [...trackingFlagNames, ...recomputeFlagNames, ...parallelFlagNames];
  for (const option of trainingFlagOptions(names)) {
    // threads are not chosen by the model here, as they are in pretraining
    if (option.long === '--threads') {
      option.description = "CPU threads per process. [its share of the host's cores]";
    }
    command.addOption(option);
  }
  return command.addOption(
    new Option('--recompute-activations', 'Means --recompute-granularity selective.')
      .implies({ recomputeGranularity: 'selective' })
      .hideHelp(),
  );
}

async function runFinetune(flags: FinetuneFlags): Promise<void> {
  const onMessage = (text: string): void => void process.stderr.write(`${text}\n`);
  const parallel: ParallelFlags = trainingFlagValues(flags, parallelFlagNames);
  const recompute: RecomputeFlags = trainingFlagValues(flags, recomputeFlagNames);
  const tracking: TrackingFlags = trainingFlagValues(flags, trackingFlagNames);
  const joined = await joinProcesses({
    variables: process.env,
    device: parallel.device,
    onMessage,
    allowTf32: parallel['allow-tf32'],
    timeoutMinutes: parallel['distributed-timeout-minutes'],
    backend: parallel['distributed-backend'],
  });
  const { world, local, job } = joined;
  const isFirst = (world?.rank ?? 0) === 0;
  let report: FineTuningReport;
  try {
    const configuration = configurationOfFlags(flags, {
      parallel,
      recompute,
      tracking,
      isRestart: joined.job.restartCount > 0,
    });
    report = await fineTune({ configuration, seeds: flags.seeds, world, local, job, onMessage });
  } catch (error) {
    // the other processes end with this message instead of waiting for this one
    world?.abort(error as Error);
    throw error;
  }
  world?.close();
  if (!isFirst) return;
  process.stdout.write(flags.json === true ? `${JSON.stringify(report)}\n` : formatFineTuning(report));
}

import {
  checkedSeeds,
  type FineTuningOptions,
  type FineTuningReport,
  fineTune,
  fineTuningConfiguration,
  fineTuningFlags,
  missingFineTuningFlags,
  type SeedResult,
} from '@mtl/bert-tasks';
import { ConfigurationError } from '@mtl/errors';
import { joinProcesses } from '@mtl/runs/internal';
import { type Command, Option } from 'commander';
import type { MissingWord } from '../command-line/command-line-error.js';
import { addFlags } from '../command-line/flag-options.js';
import { newCommand } from '../command-line/new-command.js';
import { summaries } from './summaries.js';

const examples = `
Files, as their authors give them: MNLI (train.tsv, dev_matched.tsv, dev_mismatched.tsv), QQP (train.tsv, dev.tsv), RACE
(train, dev), SQuAD (train-v1.1.json, dev-v1.1.json, or v2.0). With --save every seed has its folder of checkpoints,
predictions in the task's official format, and result.json; report.json has all results and the medians.

Examples:
  mtl finetune --task mnli --data-dir glue/MNLI --load runs/bert --seeds 1,2,3,4,5 --save runs/mnli
  mtl finetune --task squad --squad-version 2.0 --data-dir squad --load-hf bert-large-uncased --micro-batch-size 4
  mtl finetune --task race --train-data RACE/train --valid-data RACE/dev --test-data RACE/test --load runs/bert
  mtl run --nproc-per-node 2 mtl -- finetune --task qqp --data-dir glue/QQP --load runs/bert \\
    --pipeline-model-parallel-size 2`;

/**
 * Values of the command's options: the options of fine-tuning, and a few options that only the command has.
 */
type FinetuneValues = FineTuningOptions & {
  readonly recomputeActivations?: true;
  readonly json?: true;
};

/** Creates the command `mtl finetune`, which fine-tunes a BERT for a task and scores it. */
export function finetuneCommand(): Command {
  const command = newCommand('finetune', summaries.finetune);
  return addFlags(command, fineTuningFlags)
    .option('--seeds <list>', 'Seeds, one training run each: 1,2,3,4,5 as in the paper. [1234]', seedList)
    .addOption(new Option('--recompute-activations', 'Means --recompute-granularity selective.').hideHelp())
    .option('--json', 'Prints JSON.')
    .requires(missingFlags)
    .addHelpText('after', examples)
    .action(runFinetune);
}

/**
 * Parses a comma-separated list of seeds.
 *
 * @throws ConfigurationError MTL_FLAG_VALUE
 */
function seedList(text: string): readonly number[] {
  return checkedSeeds(text.split(',').map((seed) => (/^\d+$/.test(seed) ? Number(seed) : Number.NaN)));
}

function missingFlags(values: FinetuneValues): readonly MissingWord[] {
  const missing = missingFineTuningFlags(values);
  const { recomputeActivations, recomputeGranularity } = values;
  if (recomputeActivations === true && recomputeGranularity === 'full') {
    throw new ConfigurationError(
      'MTL_FLAG_CONFLICT',
      '--recompute-activations and --recompute-granularity full: --recompute-activations means --recompute-granularity selective',
      { remedy: 'leave out one' },
    );
  }
  return missing;
}

async function runFinetune({ json, recomputeActivations, ...options }: FinetuneValues): Promise<void> {
  const onMessage = (text: string): void => void process.stderr.write(`${text}\n`);
  const {
    device,
    allowTf32,
    distributedTimeoutMinutes: timeoutMinutes,
    distributedBackend: backend,
  } = options;
  const variables = process.env;
  const joined = await joinProcesses({ variables, device, onMessage, allowTf32, timeoutMinutes, backend });
  const { world, local, job } = joined;
  const recomputed = recomputeActivations === true ? ({ recomputeGranularity: 'selective' } as const) : {};
  let report: FineTuningReport;
  try {
    const isRestart = job.restartCount > 0;
    const configuration = fineTuningConfiguration({ ...options, ...recomputed }, { isRestart });
    report = await fineTune({ configuration, world, local, job, onMessage });
  } catch (error) {
    // ends the other processes with this error; otherwise they would wait for this process
    world?.abort(error as Error);
    throw error;
  }
  world?.close();
  if ((world?.rank ?? 0) === 0)
    process.stdout.write(json === true ? `${JSON.stringify(report)}\n` : formatFineTuning(report));
}

/** Formats the report as a table: a row with the last epoch of each seed, and the medians. */
function formatFineTuning(report: FineTuningReport): string {
  const { task, model, epochs, globalBatchSize, learningRate, seeds, median } = report;
  const title =
    `${task}, ${model ?? 'from scratch'}: ${epochs} epochs, batch ${globalBatchSize}, ` +
    `learning rate ${learningRate}`;
  const sets = [...new Set(seeds.flatMap(({ epochs: all }) => Object.keys(all.at(-1)?.sets ?? {})))];
  const tables = sets.map((set) => {
    const names = Object.keys(
      seeds.find((seed) => pickLast(seed, set) !== undefined)!.epochs.at(-1)!.sets[set]!,
    );
    const rows = [
      ['seed', 'epoch', ...names.map((name) => name.replaceAll('_', ' '))],
      ...seeds.flatMap((seed) => {
        const scores = pickLast(seed, set);
        if (scores === undefined) return [];
        const epoch = `${seed.epochs.at(-1)!.epoch}${seed.isDone ? '' : ', not done'}`;
        return [[`${seed.seed}`, epoch, ...names.map((name) => score(name, scores[name]!))]];
      }),
      ...(median[set] === undefined
        ? []
        : [['median', '', ...names.map((name) => score(name, median[set]![name]!))]]),
    ];
    return `${set}\n${aligned(rows)}`;
  });
  const files = seeds.flatMap(({ predictions }) => predictions);
  const written = files.length === 0 ? '' : `predictions\n${files.map((file) => `  ${file}\n`).join('')}`;
  const ended = report.reason === 'done' ? '' : `left early (${report.reason}): --resume goes on\n`;
  return `${title}\n${tables.join('')}${written}${ended}`;
}

const pickLast = ({ epochs }: SeedResult, set: string) => epochs.at(-1)?.sets[set];

const score = (name: string, value: number): string => value.toFixed(name === 'loss' ? 4 : 2);

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) => `  ${row.map((cell, column) => cell.padStart(widths[column]!)).join('  ')}\n`)
    .join('');
}

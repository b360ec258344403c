import { resolve } from 'node:path';
import { decidesLearning } from '@mtl/configuration/saved';
import { ConfigurationError, TrainingError } from '@mtl/errors';
import {
  compareRuns,
  contentsOfRun,
  type Difference,
  directoryOfRuns,
  type ExpertLoadComparison,
  findRunDirectory,
  type LossComparison,
  listRuns,
  type RunInformation,
  readRun,
  removeRun,
  runsDirectory,
  sendRun,
} from '@mtl/run-records';
import { deliveryText } from '@mtl/tracking/internal';
import { formatBytes } from '@mtl/trainer';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { summaries } from './summaries.js';

/**
 * Creates the command `mtl runs`, which lists the runs in a directory; its subcommands compare and remove
 * runs, and send metrics.
 */
export function runsCommand(): Command {
  return newCommand('runs', summaries.runs)
    .argument('[directory]', 'A directory of runs, the folder of one, or its name in runs.', runsDirectory)
    .option('--json', 'Prints JSON.')
    .action(list)
    .addCommand(diffRunsCommand())
    .addCommand(removeRunsCommand())
    .addCommand(sendRunsCommand());
}

async function list(word: string, { json }: { readonly json?: true }): Promise<void> {
  const directory = directoryOfRuns(word);
  const runs = await listRuns(directory);
  if (json === true) {
    process.stdout.write(`${JSON.stringify(runs.map(runJson))}\n`);
    return;
  }
  if (runs.length === 0) process.stdout.write(`${directory} holds no run\n`);
  else process.stdout.write(formatRuns(runs));
}

function formatRuns(runs: readonly RunInformation[]): string {
  const rows = runs.map((run) => {
    const { name, state, iteration, trainIterations, loss, validationLoss, bytes, starts } = runJson(run);
    const steps = trainIterations === null ? `${iteration}` : `${iteration} of ${trainIterations}`;
    const started = starts[0]?.time.slice(0, 16).replace('T', ' ') ?? '-';
    return [name, state, steps, lossText(loss), lossText(validationLoss), formatBytes(bytes), started];
  });
  return formatColumns([['run', 'state', 'steps', 'loss', 'validation', 'size', 'started (UTC)'], ...rows]);
}

const lossText = (loss: number | null): string => (loss === null ? '-' : loss.toFixed(4));

function formatColumns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/** Returns the JSON object for a run. */
function runJson({ name, directory, state, step, validation, bytes, record }: RunInformation) {
  const starts = record?.starts ?? [];
  return {
    name,
    directory,
    state,
    bytes,
    iteration: step?.iteration ?? 0,
    trainIterations: starts.at(-1)?.trainIterations ?? null,
    loss: step?.lm_loss ?? null,
    validationLoss: validation?.lm_loss ?? null,
    validationIteration: validation?.iteration ?? null,
    starts,
  };
}

/** Creates the command `mtl runs diff`, which compares two runs. */
function diffRunsCommand(): Command {
  return newCommand('diff', 'Compares flags, versions, losses and loads of experts of two runs.')
    .argument('<a>', 'A run: its folder, or its name in runs.')
    .argument('<b>', 'Another one.')
    .option('--json', 'Prints JSON.')
    .action(diff);
}

async function diff(a: string, b: string, { json }: { readonly json?: true }): Promise<void> {
  const directories = [findRunDirectory(a), findRunDirectory(b)] as const;
  const runs = [await readRun(directories[0]), await readRun(directories[1])] as const;
  const comparison = compareRuns(runs);
  if (json === true) {
    const described = { runs: runs.map(runJson), ...comparison };
    // a value that one of the runs lacks is undefined, and becomes null in JSON
    process.stdout.write(`${JSON.stringify(described, (_, value: unknown) => value ?? null)}\n`);
    return;
  }
  const { flags, conditions, losses, experts } = comparison;
  const noRecord = runs.filter(({ record }) => record === undefined).map(({ directory }) => directory);
  // if a record is missing, flags are unknown, so the runs may have been trained differently
  const learnAlike = noRecord.length === 0 && !flags.some(({ name }) => decidesLearning(name));
  const missing = noRecord.map(
    (directory) => `note: ${directory} has no run.json, only its losses and loads of experts are compared\n`,
  );
  process.stdout.write(
    `${missing.join('')}${section('flags', directories, flags.map(prefixFlag))}${section('conditions', directories, conditions)}` +
      formatLosses(losses) +
      (experts === undefined ? '' : formatExperts(experts, { learnAlike })),
  );
}

const prefixFlag = ({ name, values }: Difference): Difference => ({ name: `--${name}`, values });

function section(
  title: string,
  directories: readonly [string, string],
  differences: readonly Difference[],
): string {
  if (differences.length === 0) return `${title}: no difference\n`;
  const rows = [
    ['', ...directories],
    ...differences.map(({ name, values }) => [name, ...values.map(valueText)]),
  ];
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map(
    ([name, one, other]) => `  ${name!.padEnd(widths[0]!)}  ${one!.padEnd(widths[1]!)}  ${other}`,
  );
  return `${title}\n${lines.join('\n')}\n`;
}

function valueText(value: unknown): string {
  if (value === undefined || value === null) return '-';
  return Array.isArray(value) ? value.join(' ') : String(value);
}

function formatLosses({ commonSteps, firstDifference, largest, last, validation }: LossComparison): string {
  if (last === undefined) return 'losses: no step in common\n';
  const of = (losses: readonly (number | null)[]): string =>
    losses.map((loss) => (loss === null ? 'not finite' : loss.toPrecision(7))).join(' and ');
  const equal =
    firstDifference === undefined ? ', all equal to the last bit' : `, equal before ${firstDifference}`;
  const lines = [
    `${commonSteps} steps in common${equal}`,
    ...(largest === undefined
      ? []
      : [
          `largest difference ${largest.relative.toExponential(1)} of the loss, at step ${largest.iteration}`,
        ]),
    `at step ${last.iteration}: ${of(last.losses)}`,
    ...(validation === undefined
      ? []
      : [`validation at step ${validation.iteration}: ${of(validation.losses)}`]),
  ];
  return `losses\n${lines.map((line) => `  ${line}\n`).join('')}`;
}

/** The largest number of layers that are listed. If there are more layers, only their count is printed. */
const mostLayers = 3;
/** Relative differences below this value between float32 losses are attributed to rounding. */
const rounding = 1e-5;

/**
 * Formats the comparison of experts' loads. `learnAlike` is true if no flag that affects training differs.
 */
function formatExperts(
  { commonReports, firstDifference }: ExpertLoadComparison,
  { learnAlike }: { readonly learnAlike: boolean },
): string {
  if (firstDifference === undefined) {
    return `experts\n  the same loads in ${commonReports} reports in common\n`;
  }
  const { firstStep, lastStep, layers, largestBefore, largestAfter } = firstDifference;
  const when = firstStep === lastStep ? `at step ${firstStep}` : `in steps ${firstStep} to ${lastStep}`;
  const named = layers
    .slice(0, mostLayers)
    .map(({ layer, numChoices }) => `${numChoices} ${numChoices === 1 ? 'token' : 'tokens'} of ${layer}`);
  const more = layers.length > mostLayers ? `, and tokens of ${layers.length - mostLayers} more layers` : '';
  const isRounding = learnAlike && largestBefore !== undefined && largestBefore < rounding;
  const cause = isRounding ? ': rounding decides where scores of experts are equal' : '';
  const before =
    largestBefore === undefined
      ? []
      : largestBefore === 0
        ? ['losses before are equal']
        : [`losses before differ by up to ${largestBefore.toExponential(1)}${cause}`];
  const after =
    largestAfter === undefined
      ? []
      : [`losses from there on differ by up to ${largestAfter.toExponential(1)}`];
  const lines = [`${when} at least ${named.join(', ')}${more} took other experts`, ...before, ...after];
  return `experts\n${lines.map((line) => `  ${line}\n`).join('')}`;
}

/** Creates the command `mtl runs remove`, which deletes the files that runs wrote into their folders. */
function removeRunsCommand(): Command {
  return newCommand('remove', 'Deletes runs: checkpoints, metrics and records; other files stay.')
    .argument('<run...>', 'Runs: their folders, or their names in runs.')
    .option('--yes', 'Deletes them; without it the runs and their sizes are listed only.')
    .option('--json', 'Prints JSON.')
    .action(remove);
}

async function remove(names: readonly string[], { yes, json }: { yes?: true; json?: true }): Promise<void> {
  const directories = [...new Set(names.map((name) => resolve(findRunDirectory(name))))];
  const runs = await Promise.all(directories.map(readRun));
  const running = runs.find(({ state }) => state === 'running');
  if (running !== undefined) {
    throw new ConfigurationError('MTL_RUN_RUNNING', `${running.directory} is a run under way`, {
      expected: 'runs that have ended',
      remedy: 'end it first, or leave it out: nothing was deleted',
    });
  }
  const removed: Array<{
    readonly directory: string;
    readonly bytes: number;
    readonly left: readonly string[];
  }> = [];
  for (const { directory, bytes, name } of runs) {
    if (yes !== true) {
      const { own } = contentsOfRun(directory);
      process.stderr.write(`${name}: ${formatBytes(bytes)} in ${directory}: ${own.join(' ')}\n`);
      continue;
    }
    const { left } = await removeRun(directory);
    removed.push({ directory, bytes, left });
    if (json !== true) process.stdout.write(`removed ${directory}${leftText(left)}\n`);
  }
  if (yes !== true) {
    throw new ConfigurationError('MTL_RUN_REMOVE', 'nothing was deleted', {
      expected: '--yes, which deletes for good',
      remedy: `mtl runs remove ${names.join(' ')} --yes`,
    });
  }
  if (json === true) process.stdout.write(`${JSON.stringify(removed)}\n`);
}

const leftText = (left: readonly string[]): string =>
  left.length === 0 ? '' : ` but for what no run wrote: ${left.join(' ')}`;

/**
 * Creates the command `mtl runs send`, which sends metrics that tracking services did not accept during the
 * run.
 */
function sendRunsCommand(): Command {
  return newCommand('send', 'Sends metrics that wandb or MLflow did not take while runs trained.')
    .argument('<run...>', 'Runs that have ended: their folders, or their names in runs.')
    .option('--json', 'Prints JSON, one object per run.')
    .action(send);
}

async function send(names: readonly string[], { json }: { readonly json?: true }): Promise<void> {
  const onMessage = (text: string): void => {
    process.stderr.write(`${text}\n`);
  };
  let numKept = 0;
  for (const directory of new Set(names.map(findRunDirectory))) {
    const services = await sendRun({ directory, environment: process.env, onMessage });
    numKept += services.filter(({ kept, problem }) => kept > 0 || problem !== undefined).length;
    if (json === true) process.stdout.write(`${JSON.stringify({ directory, services })}\n`);
    else {
      for (const service of services)
        process.stdout.write(`${directory}: ${service.title}: ${deliveryText(service, directory)}\n`);
    }
  }
  if (numKept > 0) {
    throw new TrainingError('MTL_TRACKING_KEPT', `${numKept} services did not take everything`, {
      expected: 'services that can be reached, and that take the run',
      remedy: 'run the command again later: it sends what is left',
    });
  }
}

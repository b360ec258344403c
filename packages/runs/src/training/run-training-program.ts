import { join } from 'node:path';
import { broadcastJson } from '@mtl/comm';
import {
  type Flags,
  formatHelp,
  type ModelKind,
  type ParsedFlags,
  parseFlags,
  printConfiguration,
} from '@mtl/configuration';
import { foldNotices } from '@mtl/configuration/flags';
import { flagValuesOption, modelKindOption, processesText } from '@mtl/configuration/internal';
import { chooseExitCode, formatError } from '@mtl/errors';
import {
  checkArgument,
  checkOptions,
  functionOption,
  type OptionChecks,
  required,
  textOption,
  wordsOption,
} from '@mtl/errors/options';
import { endWithoutOutput } from '../end-without-output.js';
import type { JoinedProcesses } from '../parts/ranks/join-processes.js';
import { chooseSaveDirectory } from '../save-directory.js';
import { configureJob, isFirst, joinJob, withFlagsOfLoad } from './configure-job.js';
import { type OpenedRun, openRun } from './open-run.js';
import { type Pretraining, trainingOfRun } from './open-training.js';
import { planningFor, planningOption, type RunPlanning } from './run-planning.js';

export interface RunTrainingProgramOptions {
  /** The kind of model that the program trains. */
  readonly model: ModelKind;
  /** The name of the program, for help. */
  readonly program: string;
  /** A one-line description of the program. */
  readonly description: string;
  /** The words of the command line after the program's name. */
  readonly argv: readonly string[];
  /** Values for flags that are not set by the command line, a file, a checkpoint or a preset. */
  readonly defaults?: Flags | undefined;
  /**
   * The planner, which is `planning` in @mtl/planning. Default: none, and flags that need a planner are
   * refused.
   */
  readonly planning?: RunPlanning | undefined;
  /**
   * Receives the flags of the command line before anything is opened. Throws an error for flags that the
   * program rejects.
   */
  readonly checkFlags?: ((flags: ParsedFlags) => void) | undefined;
}

const checks: OptionChecks<RunTrainingProgramOptions> = {
  model: required(modelKindOption),
  program: required(textOption),
  description: required(textOption),
  argv: required(wordsOption),
  defaults: flagValuesOption,
  planning: planningOption,
  checkFlags: functionOption,
};

/** 128 plus SIGPIPE, as shells expect; the number is written out, because Windows has no such signal. */
const closedPipeExitCode = 128 + 13;

/** A function that a program runs with the opened run, on every rank. */
export type TrainingProgramBody = (run: OpenedRun) => Promise<void>;

/**
 * Runs a training program: reads flags, joins the job's processes, opens the run, and passes the run to
 * `body`. With --dry-run, only prints the resources that the run needs. Prints an error, which also
 * determines the exit code of the process.
 *
 * @param body the use of the opened run; by default, trains and then prints the results
 * @throws ConfigurationError MTL_OPTION for an option with a wrong type
 */
export async function runTrainingProgram(
  options: RunTrainingProgramOptions,
  body: TrainingProgramBody = openAndTrain,
): Promise<void> {
  checkOptions(options, { of: 'runTrainingProgram', checks });
  checkArgument(body, { name: 'body', check: functionOption });
  const { argv, model, program, description, planning, defaults = {} } = options;
  // this handling applies until the run trains. From then on, the run itself handles a closed output, and
  // saves first
  endWithoutOutput({ exitCode: closedPipeExitCode });
  try {
    const flags = parseFlags(argv, { model, unused: defaults });
    if (flags.help) {
      console.log(formatHelp({ program, description, model, columns: process.stdout.columns }));
      return;
    }
    options.checkFlags?.(flags);
    if (flags.values['dry-run'] === true) {
      const numProcesses = flags.values['num-processes'];
      const of = { flags, numProcesses, variables: process.env, print: console.log };
      await planningFor('--dry-run', planning).printDryRun(of);
      return;
    }
    const commandLine = [program, ...argv.map(shellWord)].join(' ');
    await trainInJob(flags, { commandLine, body, planning });
  } catch (error) {
    console.error(formatError(error, { debug: argv.includes('--debug') }));
    process.exit(chooseExitCode(error));
  }
}

async function trainInJob(flags: ParsedFlags, how: ProgramOfJob): Promise<void> {
  const joined = await joinJob(flags, console.log);
  try {
    await train(await withFlagsOfLoad(flags, joined, console.log), { ...how, joined });
  } catch (error) {
    // ends the other processes with this error; otherwise they would wait for this process
    joined.world?.abort(error as Error);
    throw error;
  }
  joined.world?.close();
}

interface ProgramOfJob {
  readonly commandLine: string;
  readonly body: TrainingProgramBody;
  readonly planning: RunPlanning | undefined;
}

async function train(
  flags: ParsedFlags,
  { joined, commandLine, body, planning }: ProgramOfJob & { readonly joined: JoinedProcesses },
): Promise<void> {
  const { world } = joined;
  const named = chooseSaveDirectory({
    flags: flags.values,
    preset: flags.preset === 'none' ? flags.model : flags.preset,
    startedAt: joined.startedAt ?? new Date(),
    processId: Number(process.env.MTL_LAUNCHER_PID ?? process.pid),
  });
  const save = world === undefined ? named : broadcastJson(world.group, named);
  const saving = { ...flags, values: { ...flags.values, save } };
  const { configuration, conversations } = await configureJob(saving, joined);
  const say = (text: string): void => {
    if (isFirst(world)) console.log(text);
  };
  if (configuration.logging.isVerbose) say(printConfiguration(configuration, { all: false }));
  else for (const notice of foldNotices(configuration.notices, '--verbose')) say(`  note: ${notice}`);
  if (flags.values.save === undefined) say(`  saving to ${save} (--save names another folder)`);
  if (world !== undefined && !configuration.logging.isVerbose)
    say(`  processes ${processesText(configuration)}`);
  if (world !== undefined) say(`  ranks communicate over ${world.group.engine}`);
  const corpusDirectory = join('.cache', 'mtl');
  try {
    const opening = { configuration, corpusDirectory, commandLine, conversations, planning };
    const run = await openRun({ ...opening, ...joined });
    try {
      await body(run);
    } finally {
      await run.saveDirectory.release();
    }
  } catch (error) {
    const rank = world?.rank ?? 0;
    const samples = conversations?.samples;
    const failed = { resolved: flags, configuration, conversations: samples, rank };
    throw planning === undefined ? error : await planning.explainOutOfMemory(error, failed);
  }
}

/** Builds the run, and trains it to its end. */
async function openAndTrain(run: OpenedRun): Promise<void> {
  const training = await trainingOfRun(run);
  try {
    await training.run();
    await showResults(run, training);
  } finally {
    await training.close();
  }
}

/**
 * Prints how a run ended, its summary, and a sample of its model. All ranks must call this function after the
 * last step.
 */
export async function showResults({ onMessage }: OpenedRun, training: Pretraining): Promise<void> {
  const { configuration, reporters } = training;
  const { reason, checkpointPath, isUnchanged } = training.result!;
  const rows = await training.endReports();
  onMessage(reporters.summary.text({ checkpointPath, rows }));
  if (reporters.comparison !== undefined) onMessage(reporters.comparison.text());
  if (reason === 'done' || reason === 'early-stopping') {
    if (reason === 'early-stopping') onMessage('ended early: the validation loss has stopped falling');
    const shown = await training.show();
    if (shown !== undefined) onMessage(`\n${shown}`);
  } else if (isUnchanged === true) {
    onMessage(`stopped (${reason}); no step changed the weights, and nothing was saved`);
  } else {
    onMessage(`stopped (${reason}); go on with the same flags and --load ${configuration.checkpoint.save}`);
  }
}

/** Returns `word`, in quotes if a shell needs them. */
export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

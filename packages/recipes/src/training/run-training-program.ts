import { constants } from 'node:os';
import { join } from 'node:path';
import { broadcastJson } from '@mtl/comm/internal';
import {
  type Flags,
  foldNotices,
  formatHelp,
  type ModelKind,
  type ParsedFlags,
  type PretrainingConfiguration,
  parseFlags,
  printConfiguration,
  processesText,
} from '@mtl/configuration';
import { exitCodeOf, formatError } from '@mtl/errors';
import { chooseSaveDirectory } from '../checkpoints/choose-save-directory.js';
import type { OpenedConversations } from '../conversations/open-conversations.js';
import { printDryRun } from '../dry-run/print-dry-run.js';
import { explainOutOfMemory } from '../memory/explain-out-of-memory.js';
import { configureJob, isFirst, joinJob, withFlagsOfLoad } from './configure-job.js';
import { endWithoutOutput } from './end-without-output.js';
import type { JoinedProcesses } from './join-processes.js';
import { PlanComparison, planToCompare } from './plan-comparison.js';
import { shellWord } from './shell-word.js';
import { Training } from './training.js';

export interface RunTrainingProgramOptions {
  /** The model that the program trains. */
  readonly model: ModelKind;
  /** What the program is called, for help. */
  readonly program: string;
  /** One line about what it does. */
  readonly description: string;
  /** The words of the command line behind the program's name. */
  readonly argv: readonly string[];
  /** Values where no flag, file, checkpoint or preset gives one. */
  readonly defaults?: Flags | undefined;
  /** Called with the flags of the command line before anything is opened: what it throws refuses them. */
  readonly checkFlags?: ((flags: ParsedFlags) => void) | undefined;
}

/**
 * A whole training program: reads flags, joins the processes of its job, trains, and prints the results at
 * the end; with --dry-run it only prints what the run would take. An error is printed and ends the process
 * with its exit code.
 */
export async function runTrainingProgram(options: RunTrainingProgramOptions): Promise<void> {
  const { argv, model, program, description, defaults = {} } = options;
  // while a training runs it saves first; before that there is nothing to save
  endWithoutOutput({ exitCode: 128 + constants.signals.SIGPIPE });
  try {
    const flags = parseFlags(argv, { model, unused: defaults });
    if (flags.help) {
      console.log(formatHelp({ program, description, model }));
      return;
    }
    options.checkFlags?.(flags);
    if (flags.values['dry-run'] === true) {
      await printDryRun({ model, argv, defaults, variables: process.env, print: console.log });
      return;
    }
    const commandLine = [program, ...argv.map(shellWord)].join(' ');
    await trainInJob(flags, commandLine);
  } catch (error) {
    console.error(formatError(error, { debug: argv.includes('--debug') }));
    process.exit(exitCodeOf(error));
  }
}

async function trainInJob(flags: ParsedFlags, commandLine: string): Promise<void> {
  const joined = await joinJob(flags, console.log);
  try {
    await train(await withFlagsOfLoad(flags, joined), { joined, commandLine });
  } catch (error) {
    // the other processes end with this message instead of waiting for this one
    joined.world?.abort(error as Error);
    throw error;
  }
  joined.world?.close();
}

interface JoinedCommand {
  readonly joined: JoinedProcesses;
  readonly commandLine: string;
}

async function train(flags: ParsedFlags, { joined, commandLine }: JoinedCommand): Promise<void> {
  const { world } = joined;
  const named = chooseSaveDirectory({
    ...{
      flags: flags.values,
      preset: flags.preset === 'none' ? flags.model : flags.preset,
      startedAt: joined.startedAt ?? new Date(),
    },
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
  try {
    await trainAndShow(configuration, { joined, commandLine, conversations, say });
  } catch (error) {
    const rank = world?.rank ?? 0;
    const samples = conversations?.samples;
    throw await explainOutOfMemory(error, { resolved: flags, configuration, conversations: samples, rank });
  }
}

interface ShowOptions extends JoinedCommand {
  readonly conversations: OpenedConversations | undefined;
  /** Prints a text, once. */
  readonly say: (text: string) => void;
}

async function trainAndShow(
  configuration: PretrainingConfiguration,
  { joined, commandLine, conversations, say }: ShowOptions,
): Promise<void> {
  const corpusDirectory = join('.cache', 'mtl');
  const { world } = joined;
  const isCompared = configuration.logging.comparesWithPlan && isFirst(world);
  const plan = isCompared ? await planToCompare(configuration, process.env) : undefined;
  const training = await Training.build({
    configuration,
    corpusDirectory,
    commandLine,
    conversations,
    ...joined,
  });
  try {
    const { processes, reporters } = training;
    const write = (text: string): void => {
      for (const reporter of reporters.all) reporter.message?.(text);
    };
    const comparison = plan && new PlanComparison({ plan, groups: processes.groups, write });
    const { reason, checkpointPath, isUnchanged } = await training.run({
      reporters: comparison ? [comparison] : [],
    });
    const rows = await training.endReports();
    say(training.reporters.summary.text({ checkpointPath, rows }));
    if (comparison !== undefined) say(comparison.text());
    if (reason === 'done' || reason === 'early-stopping') {
      if (reason === 'early-stopping') say('ended early: the validation loss has stopped falling');
      const shown = await training.show();
      if (shown !== undefined) say(`\n${shown}`);
    } else if (isUnchanged === true) {
      say(`stopped (${reason}); no step changed the weights, and nothing was saved`);
    } else {
      say(`stopped (${reason}); go on with the same flags and --load ${configuration.checkpoint.save}`);
    }
  } finally {
    await training.close();
  }
}

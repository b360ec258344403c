import { readFileSync, writeFileSync } from 'node:fs';
import { loadScheduleModule } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import {
  buildSchedule,
  chromeTrace,
  formatScheduleCsv,
  formatTimeline,
  type PassTimes,
  type PipelineSchedule,
  parseScheduleCsv,
  scheduleNames,
  simulateSchedule,
  timelineLegend,
  timelineSvg,
} from '@mtl/pipeline/schedules';
import { type Command, Option } from 'commander';
import type { MissingWord } from '../../command-line/command-line-error.js';
import { newCommand } from '../../command-line/new-command.js';
import { countOption, numberOption, suggestValues } from '../../command-line/option-values.js';
import { reportColumns } from '../../terminal/report-text.js';
import { summaries } from '../summaries.js';
import { compareTrace } from './compare-trace.js';
import { simulationJson } from './simulation-json.js';

interface ScheduleFlags extends TimeFlags {
  readonly pipelineSchedule?: string;
  readonly compare?: string;
  readonly stages?: number;
  readonly microBatches?: number;
  readonly chunks?: number;
  readonly numVirtualStagesPerPipelineRank?: number;
  readonly microBatchGroupSize?: number;
  readonly keptUntilWeight: number;
  readonly barrier: boolean;
  readonly svg?: string;
  readonly chromeTrace?: string;
  readonly csv?: string;
  readonly json?: true;
}

const notes = `
Times are in any unit and count for the layers of a stage; its chunks share them. A list has one number for each stage, or
one for each chunk in the order of the model, each in full: --backward-input-time 1,1,1,1.9 --backward-weight-time 1,1,1,1.5
makes the last of four stages slower, as the output head does, whose logits are computed in backward.

A FILE.csv has a line for each stage with its actions in order, separated by commas: chunk, F (forward), B (backward), I or W
(input or weight half of backward alone) and micro-batch, counted from 0, as in 0F0,0F1,0B0,0B1. A FILE.mjs exports by
default a function from { numStages, numMicroBatches, numChunks, microBatchGroupSize } to a schedule of @mtl/pipeline.

Examples:
  mtl schedule --pipeline-schedule interleaved --stages 4 --micro-batches 8 --chunks 2 --svg interleaved.svg
  mtl schedule --pipeline-schedule zb-h1 --stages 4 --micro-batches 8 --csv own.csv
  mtl schedule --pipeline-schedule own.csv --communication-time 0.1 --chrome-trace own.json
  mtl schedule --pipeline-schedule own.mjs --stages 4 --micro-batches 8 --chunks 2
  mtl schedule --compare trace.json --svg comparison.svg`;

/** Creates the command `mtl schedule`, which prints the cost and the timeline of a pipeline schedule. */
export function scheduleCommand(): Command {
  return newCommand('schedule', summaries.schedule)
    .addOption(
      suggestValues(
        new Option(
          '--pipeline-schedule <schedule>',
          `The schedule: ${scheduleNames.join(', ')}, or a FILE.csv or FILE.mjs.`,
        ),
        scheduleNames,
      ),
    )
    .option(
      '--compare <trace>',
      'Compares the trace of a training run (its --profile-steps) with the simulation.',
    )
    .addOption(countOption('--stages <p>', 'Pipeline stages (ranks).', { least: 2 }))
    .addOption(countOption('--micro-batches <m>', 'Micro-batches per step.'))
    .addOption(
      countOption('--chunks <v>', 'Model chunks on each rank. [the fewest that the schedule allows]'),
    )
    .addOption(
      countOption('--num-virtual-stages-per-pipeline-rank <v>', 'Means --chunks, as training runs name it.'),
    )
    .addOption(
      countOption(
        '--micro-batch-group-size <n>',
        'Micro-batches per group of the interleaved schedule. [the number of stages]',
      ),
    )
    .addOption(timesOption('--forward-time <t>', 'Forward of a micro-batch on a stage').default([1], '1'))
    .addOption(timesOption('--backward-input-time <t>', 'Input half of backward').default([1], '1'))
    .addOption(timesOption('--backward-weight-time <t>', 'Weight half of backward').default([1], '1'))
    .addOption(
      timesOption('--backward-time <t>', 'Both halves of backward in one pass, instead of their sum'),
    )
    .addOption(
      numberOption('--communication-time <t>', 'Message from one rank to another.', { least: 0 }).default(0),
    )
    .addOption(numberOption('--optimizer-time <t>', 'Optimizer step.', { least: 0 }).default(0))
    .addOption(
      numberOption('--kept-until-weight <f>', 'Share of the activations that the weight half needs.', {
        least: 0,
        most: 1,
      }).default(1),
    )
    .option(
      '--no-barrier',
      'No rank waits for the others before its optimizer step (no clipping, no loss scaling).',
    )
    .option('--svg <file>', 'Writes a picture.')
    .option('--chrome-trace <file>', 'Writes a trace for ui.perfetto.dev or chrome://tracing.')
    .option('--csv <file>', 'Writes the actions as a FILE.csv for --pipeline-schedule.')
    .option('--json', 'Prints JSON.')
    .addHelpText('after', notes)
    .requires(missingFlags)
    .action(runSchedule);
}

/** Returns missing flags. @throws ConfigurationError MTL_FLAG_CONFLICT */
function missingFlags(flags: ScheduleFlags): readonly MissingWord[] {
  const { pipelineSchedule: name, compare, stages, microBatches } = flags;
  if (compare !== undefined) return [];
  countChunks(flags);
  const sizes = [
    { name: '--stages', usage: '--stages P', value: stages },
    { name: '--micro-batches', usage: '--micro-batches M', value: microBatches },
  ];
  const isSized = name?.endsWith('.csv') === true;
  return [
    ...(name === undefined
      ? [
          {
            name: '--pipeline-schedule (or --compare)',
            usage: `--pipeline-schedule ${scheduleNames.join('|')}|FILE.csv|FILE.mjs`,
          },
        ]
      : []),
    ...(isSized ? [] : sizes.filter(({ value }) => value === undefined)),
  ];
}

function runSchedule(flags: ScheduleFlags, command: Command): void {
  if (flags.compare === undefined) runSimulation(flags);
  else runComparison(flags.compare, flags, command);
}

function runSimulation(flags: ScheduleFlags): void {
  const schedule = openSchedule(flags);
  const simulation = simulateSchedule({
    schedule,
    times: choosePassTimes(flags, schedule),
    activations: { untilInput: 1, untilWeight: flags.keptUntilWeight },
    barrier: flags.barrier,
  });
  write('--svg', flags.svg, () => timelineSvg(simulation));
  write('--chrome-trace', flags.chromeTrace, () => `${JSON.stringify(chromeTrace(simulation))}\n`);
  write('--csv', flags.csv, () => formatScheduleCsv(schedule));
  if (flags.json === true) {
    process.stdout.write(`${JSON.stringify(simulationJson(simulation))}\n`);
    return;
  }
  const unit = 'the unit of --forward-time';
  process.stdout.write(
    `${formatTimeline(simulation, { width: columnsOfOutput() })}\n${timelineLegend(simulation, unit)}`,
  );
}

/**
 * Returns the width of a timeline in characters: the width of the terminal, or, if the output is a file, a
 * width that most programs can display.
 */
function columnsOfOutput(): number {
  const { isTTY, columns } = process.stdout;
  return isTTY === true ? columns : reportColumns;
}

/**
 * The flags that --compare allows. A trace contains its own schedule and times, so only flags for the output
 * are allowed.
 */
const flagsOfComparison = ['compare', 'communicationTime', 'svg', 'json', 'debug'];

function runComparison(name: string, flags: ScheduleFlags, command: Command): void {
  const other = command.options.find((option) => {
    const isGiven = command.getOptionValueSource(option.attributeName()) === 'cli';
    return isGiven && !flagsOfComparison.includes(option.attributeName());
  });
  if (other !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `${other.long} and --compare: the trace contains it`, {
      remedy: `leave ${other.long} out`,
    });
  }
  const { text, json, svg } = compareTrace({
    name,
    text: readText('--compare', name),
    communication: flags.communicationTime,
    width: columnsOfOutput(),
  });
  write('--svg', flags.svg, () => svg);
  process.stdout.write(flags.json === true ? `${JSON.stringify(json)}\n` : text);
}

/** Returns the schedule with the given name, or from the given file. */
function openSchedule(flags: ScheduleFlags): PipelineSchedule {
  const { stages, microBatches, microBatchGroupSize } = flags;
  const name = flags.pipelineSchedule!;
  const chunks = countChunks(flags);
  if (!name.endsWith('.csv')) {
    const size = {
      numStages: stages!,
      numMicroBatches: microBatches!,
      numChunks: chunks,
      microBatchGroupSize,
    };
    return /\.[cm]?js$/.test(name) ? loadScheduleModule(name)(size) : buildSchedule(name, size);
  }
  const sizes = { '--stages': stages, '--micro-batches': microBatches, '--chunks': chunks };
  const given = Object.entries({ ...sizes, '--micro-batch-group-size': microBatchGroupSize });
  const extra = given.find(([, value]) => value !== undefined);
  if (extra !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `${extra[0]} and ${name}: the file defines the size`, {
      remedy: `leave ${extra[0]} out`,
    });
  }
  return parseScheduleCsv(readText('--pipeline-schedule', name), { name });
}

function countChunks({ chunks, numVirtualStagesPerPipelineRank: same }: ScheduleFlags): number | undefined {
  if (chunks === undefined || same === undefined || chunks === same) return chunks ?? same;
  throw new ConfigurationError(
    'MTL_FLAG_CONFLICT',
    `--chunks ${chunks} and --num-virtual-stages-per-pipeline-rank ${same} are two numbers for the same`,
    { remedy: 'pass only one' },
  );
}

function readText(flag: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigurationError('MTL_SCHEDULE_FILE', `${flag} ${file}: ${(error as Error).message}`, {
      expected: 'a file that can be read',
      cause: error,
    });
  }
}

function write(flag: string, file: string | undefined, content: () => string): void {
  if (file === undefined) return;
  try {
    writeFileSync(file, content());
  } catch (error) {
    throw new ConfigurationError('MTL_SCHEDULE_FILE', `${flag} ${file}: ${(error as Error).message}`, {
      expected: 'a file that can be written',
      cause: error,
    });
  }
}

/** The values of the flags for how long forward and backward passes take. */
interface TimeFlags {
  readonly forwardTime: readonly number[];
  readonly backwardInputTime: readonly number[];
  readonly backwardWeightTime: readonly number[];
  readonly backwardTime?: readonly number[];
  readonly communicationTime: number;
  readonly optimizerTime: number;
}

/** Returns an option that takes numbers ≥ 0: a single number, or several that are separated by commas. */
function timesOption(flags: string, description: string): Option {
  return new Option(flags, `${description}; one for all, or a list.`).argParser((value: string) => {
    const numbers = value.split(',').map((word) => (word.trim() === '' ? Number.NaN : Number(word)));
    if (numbers.every((number) => Number.isFinite(number) && number >= 0)) return numbers;
    const name = flags.split(' ')[0];
    throw new ConfigurationError('MTL_FLAG_VALUE', `${name} ${value} cannot be used`, {
      expected: 'a number of 0 or more, or several with commas between them',
    });
  });
}

/**
 * Returns how long forward and backward passes take on each chunk.
 * @throws ConfigurationError `MTL_FLAG_VALUE` for a list of the wrong length
 */
function choosePassTimes(flags: TimeFlags, schedule: PipelineSchedule): PassTimes {
  const { placement, actions } = schedule;
  const numHeld = actions.map((_, rank) => placement.filter((other) => other === rank).length);
  const perChunk = (flag: string, values: readonly number[]): readonly number[] => {
    if (values.length === placement.length) return values;
    if (values.length === 1 || values.length === actions.length) {
      return placement.map((rank) => (values[rank] ?? values[0]!) / numHeld[rank]!);
    }
    const perStage = `1 for all or ${actions.length}, one for each stage`;
    const isChunked = placement.length > actions.length;
    throw new ConfigurationError('MTL_FLAG_VALUE', `${flag}: ${values.length} times`, {
      expected: isChunked ? `${perStage}, or ${placement.length}, one for each chunk` : perStage,
    });
  };
  const { backwardTime } = flags;
  return {
    forward: perChunk('--forward-time', flags.forwardTime),
    backwardInput: perChunk('--backward-input-time', flags.backwardInputTime),
    backwardWeight: perChunk('--backward-weight-time', flags.backwardWeightTime),
    ...(backwardTime === undefined ? {} : { backward: perChunk('--backward-time', backwardTime) }),
    communication: flags.communicationTime,
    optimizer: flags.optimizerTime,
  };
}

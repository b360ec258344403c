import { writeFileSync } from 'node:fs';
import {
  type FlagName,
  type Flags,
  type ModelKind,
  type ParsedFlags,
  type PretrainingConfiguration,
  parseFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { checkRequiredFlags, FlagReader, foldNotices } from '@mtl/configuration/flags';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { isProfileKnown, openProfile, type Profile, profileNames } from '@mtl/cost-model';
import { ConfigurationError, changedError, MtlError } from '@mtl/errors';
import { chromeTrace, timelineSvg } from '@mtl/pipeline/schedules';
import { type FoundLayout, planRun, type RunPlan, type SearchProgress, searchLayouts } from '@mtl/planning';
import { withDeviceOfProfile } from '@mtl/planning/internal';
import { loadModelBlocks, readLoadedFlags, withHubModels } from '@mtl/runs/internal';
import { type Command, Option } from 'commander';
import { refuseOwnOptions } from '../../command-line/command-line-error.js';
import { newCommand } from '../../command-line/new-command.js';
import { choiceOption, countOption, suggestValues } from '../../command-line/option-values.js';
import { summaries } from '../summaries.js';
import { formatPlan } from './format-plan.js';
import { accuracy, chooseNumNodes, formatSearch, launchWords, recordedLayout } from './format-search.js';
import { SearchReport } from './search-report.js';

interface PlanFlags {
  readonly model: ModelKind;
  readonly profile?: string;
  readonly numProcesses: number;
  readonly gpusPerNode?: number;
  readonly memory?: number;
  readonly search?: true;
  readonly check?: true;
  readonly svg?: string;
  readonly chromeTrace?: string;
  readonly json?: true;
}

const examples = `
Examples:
  mtl plan --profile h100-80gb -- --preset gpt2-124m --bf16
  mtl plan --profile h100-80gb --num-processes 8 -- --preset megatron-8.3b --bf16 --tensor-model-parallel-size 8
  mtl plan --profile h100-80gb --num-processes 64 --search -- --preset megatron-8.3b --bf16 --global-batch-size 512
  mtl plan --profile a100-80gb-megatron --num-processes 64 --svg step.svg -- --preset none --bf16 \\
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 \\
    --tokenizer-type NullTokenizer --vocab-size 51200 --micro-batch-size 1 --global-batch-size 64 \\
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --sequence-parallel

A profile whose operations are recorded (a100-80gb, h100-80gb, h200-141gb, or a FILE.json) predicts this program, from a dry run of
it, on device cuda unless --device is given. The others predict what their program takes, of a GPT.

For a BERT the prediction assumes samples that fill their sequences. Padding is not computed: shorter samples need less.`;

/**
 * Values for required flags that do not affect a plan, because a step's memory and time do not depend on
 * them.
 */
const unused: Flags = { lr: 1, 'data-path': ['bundled'], 'train-iters': 1_000_000_000 };

/**
 * Creates the command `mtl plan`, which predicts the memory and time that a training run needs on a given
 * machine.
 */
export function planCommand(): Command {
  return newCommand('plan', summaries.plan)
    .argument('[flags...]', 'The flags of the training run, after --.')
    .addOption(
      choiceOption('--model <kind>', 'The model that the flags describe.', ['gpt', 'bert']).default('gpt'),
    )
    .addOption(
      suggestValues(
        new Option(
          '--profile <profile>',
          'The machine: a shipped profile or a FILE.json. [the file that MTL_PROFILE names, or ~/.config/mtl/profile.json]',
        ),
        profileNames(),
      ),
    )
    .addOption(countOption('--num-processes <n>', 'Processes of the training run.').default(1))
    .addOption(countOption('--gpus-per-node <n>', "Processes of one node. [the profile's]"))
    .addOption(
      bytesOption('--memory <bytes>', "Memory of each process, as 80e9, 80GB or 80GiB. [the profile's]"),
    )
    .option('--search', 'Finds the fastest layouts that fit; layout flags that are given stay as they are.')
    .option(
      '--check',
      'Ends with status 1 if the run does not fit, with --search if no layout fits. [status 0; 2 with --search]',
    )
    .option('--svg <file>', 'Writes a picture of the step, with --search of the best.')
    .option('--chrome-trace <file>', 'Writes the step as a trace for ui.perfetto.dev or chrome://tracing.')
    .addOption(new Option('--tflops <rate>').hideHelp().argParser(refuseRate))
    .option('--json', 'Prints JSON, in bytes and seconds.')
    .addHelpText('after', examples)
    .action(plan);
}

async function plan(argv: readonly string[], flags: PlanFlags, command: Command): Promise<void> {
  refuseOwnOptions(argv, command);
  const { model, numProcesses, memory, json } = flags;
  if (flags.search === true) {
    await search(argv, flags);
    return;
  }
  const parsed = await withConfigurationOfHub(parseFlags(argv, { model, unused }));
  await loadModelBlocks(parsed);
  const loaded = withLoadedFlags(parsed, await readLoadedFlags(parsed));
  refuseMissing(loaded, flags);
  const profile = chooseProfile(flags);
  const onDevice = withDeviceOfProfile(loaded, profile);
  const configuration = validateConfiguration(onDevice, { worldSize: numProcesses });
  const planned = await planRun(configuration, { profile, memoryBytes: memory });
  writePictures(planned, flags);
  if (flags.check === true && !planned.fits) process.exitCode = 1;
  const isTrainingKnown = isLengthKnown(configuration);
  if (json === true) {
    process.stdout.write(`${JSON.stringify(describePlan(planned, isTrainingKnown))}\n`);
    return;
  }
  const { notices, logging } = configuration;
  const notes = logging.isVerbose ? notices : foldNotices(notices, '--verbose');
  process.stdout.write(notes.map((notice) => `note: ${notice}\n`).join(''));
  process.stdout.write(formatPlan(planned, { configuration, profile, isTrainingKnown }));
}

/**
 * Downloads the configuration of Hub models that flags name, without the weights, which a plan does not need.
 */
const withConfigurationOfHub = (parsed: ParsedFlags): Promise<ParsedFlags> =>
  withHubModels(parsed, {
    needs: 'configuration',
    onMessage: (text) => void process.stderr.write(`${text}\n`),
  });

async function search(argv: readonly string[], flags: PlanFlags): Promise<void> {
  const { model, numProcesses, memory: memoryBytes, json } = flags;
  // a search chooses the micro-batch size itself, so this flag is optional
  const parsed = await withConfigurationOfHub(
    parseFlags(argv, { model, unused: { ...unused, 'micro-batch-size': 1 } }),
  );
  refuseMissing(withLoadedFlags(parsed, await readLoadedFlags(parsed)), flags);
  const profile = chooseProfile(flags);
  const progress = new SearchReport();
  const onProgress = (each: SearchProgress): void => progress.update(each);
  const options = { flags: parsed, numProcesses, profile, memoryBytes, onProgress };
  const found = await searchLayouts(options)
    .catch((error: unknown) => {
      const isTooLarge = MtlError.isInstance(error) && error.details?.leastBytes !== undefined;
      // with --check, the exit status is 1 if no layout fits
      throw flags.check === true && isTooLarge ? changedError(error, { exitCode: 1 }) : error;
    })
    .finally(() => progress.close());
  writePictures(found.layouts[0]!.plan, flags);
  const gpusPerNode = profile.hardware.gpusPerNode.value;
  const commandWith = (words: readonly string[]): readonly string[] =>
    launchWords({ program: `${model}-train`, flags: [...argv, ...words], numProcesses, gpusPerNode });
  if (json === true) {
    const layouts = found.layouts.map((layout) => ({
      layout: recordedLayout(layout),
      command: commandWith(layout.words),
      ...describePlan(layout.plan, isLengthKnown(layout.configuration)),
    }));
    process.stdout.write(`${JSON.stringify({ ...found, layouts })}\n`);
    return;
  }
  const numNodes = chooseNumNodes(numProcesses, gpusPerNode);
  process.stdout.write(
    formatSearch(found, {
      commandWith,
      accuracy: accuracy(profile),
      numNodes,
      missing: missingFlags(found.layouts[0]!),
    }),
  );
}

/**
 * Rejects a command line that lacks required flags.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED, which names all missing flags of the run and of this command
 */
function refuseMissing(run: ParsedFlags, { profile, search: isSearch }: PlanFlags): void {
  const isKnown = isProfileKnown({ name: profile, variables: process.env });
  checkRequiredFlags(new FlagReader(run), {
    preset: run.preset,
    argv: run.argv,
    alsoMissing: [
      ...(isKnown ? [] : ['--profile (or mtl calibrate)']),
      ...(isSearch && run.values['global-batch-size'] === undefined ? ['--global-batch-size'] : []),
    ],
  });
}

function chooseProfile({ profile: name, gpusPerNode }: PlanFlags): Profile {
  const profile = openProfile({ name, variables: process.env });
  if (gpusPerNode === undefined) return profile;
  const { hardware } = profile;
  return {
    ...profile,
    hardware: { ...hardware, gpusPerNode: { value: gpusPerNode, source: '--gpus-per-node' } },
  };
}

/** Returns true if flags determine the length of the training run. */
function isLengthKnown({ sources }: PretrainingConfiguration): boolean {
  return (['train-iters', 'train-samples'] as const).some(
    (flag) => (sources.get(flag) ?? 'default') !== 'default',
  );
}

/** Returns the flags that a training run requires and that a plan replaces by substitute values. */
function missingFlags({ configuration: { sources } }: FoundLayout): string[] {
  const isMissing = (name: FlagName): boolean => (sources.get(name) ?? 'default') === 'default';
  return [
    ...(['lr', 'data-path'] as const).filter(isMissing).map((name) => `--${name}`),
    ...(isMissing('train-iters') && isMissing('train-samples') ? ['--train-iters'] : []),
  ];
}

function writePictures({ simulation }: RunPlan, flags: PlanFlags): void {
  if (flags.svg !== undefined) write('--svg', flags.svg, timelineSvg(simulation));
  if (flags.chromeTrace !== undefined) {
    write('--chrome-trace', flags.chromeTrace, `${JSON.stringify(chromeTrace(simulation))}\n`);
  }
}

function write(flag: string, file: string, content: string): void {
  try {
    writeFileSync(file, content);
  } catch (error) {
    throw new ConfigurationError('MTL_FLAG_VALUE', `${flag} ${file}: ${(error as Error).message}`, {
      expected: 'a file that can be written',
      cause: error,
    });
  }
}

function describePlan(planned: RunPlan, isTrainingKnown: boolean): Readonly<Record<string, unknown>> {
  const { simulation: _, trainingSeconds, ...rest } = planned;
  return isTrainingKnown ? { ...rest, trainingSeconds } : rest;
}

function refuseRate(rate: string): never {
  throw new ConfigurationError('MTL_FLAG_VALUE', `--tflops ${rate}: a rate is predicted, not assumed`, {
    expected: '--profile, which describes the machine: a shipped profile or a FILE.json',
    remedy: 'leave --tflops out and pass --profile, for example --profile h100-80gb',
  });
}

const units: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** The smallest plausible memory in bytes. A smaller value probably lacks its unit. */
const least = 2 ** 20;

/** Returns an option that takes a number of bytes, with or without a unit. */
function bytesOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((value: string) => {
    const [, number, unit = ''] = /^([\d.]+(?:e\d+)?) ?([A-Za-z]*)$/.exec(value.trim()) ?? [];
    const bytes = number === undefined ? Number.NaN : Number(number) * (units[unit] ?? Number.NaN);
    if (Number.isFinite(bytes) && bytes >= least) return Math.floor(bytes);
    const name = /--[a-z-]+/.exec(flags)![0];
    throw new ConfigurationError('MTL_FLAG_VALUE', `${name} ${value} cannot be used`, {
      expected: 'bytes, 1 MiB or more: 80e9, 80GB or 80GiB',
      ...(bytes > 0 ? { remedy: `pass ${name} ${value}GiB` } : {}),
    });
  });
}

import { existsSync, readdirSync } from 'node:fs';
import { basename, join, parse, resolve } from 'node:path';
import { findCheckpoint, type LogicalTensor } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import { type FlagName, resolveFlags } from '@mtl/configuration';
import { FlagReader, foldNotices, partsNamed } from '@mtl/configuration/flags';
import { trackingConfiguration } from '@mtl/configuration/internal';
import { ConfigurationError } from '@mtl/errors';
import {
  checkOptions,
  functionOption,
  listOption,
  type OptionChecks,
  objectOption,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import type { BertModelConfiguration, BertTask } from '@mtl/models';
import type { RunStart } from '@mtl/run-records';
import { TrainingProcesses } from '@mtl/runs';
import {
  closeAfterError,
  closeSinks,
  fetchFromHub,
  type Job,
  jobOption,
  localOption,
  type MetricsFiles,
  noteOfUnknownData,
  openDeviceOfRank,
  openMetricsFiles,
  openTracking,
  readLastStart,
  SaveDirectory,
  setThreadsOfRank,
  signalOfRanks,
  type ThreadChoice,
  type TrackedConfiguration,
  trackingOfRun,
  worldOption,
} from '@mtl/runs/lifecycle';
import {
  type MetricsSink,
  readTrainingState,
  type TrainingReporter,
  type TrainingResult,
} from '@mtl/trainer';
import { refuseAfterStopSignal } from '@mtl/trainer/stop-signals';
import type { FineTuningConfiguration } from '../flags/fine-tuning-configuration.js';
import { type FineTuningLayout, fineTuningLayout } from './fine-tuning-layout.js';
import {
  type EpochResult,
  medianResult,
  readSeedResult,
  resultPath,
  type SeedResult,
  seedDirectory,
  writeResult,
} from './fine-tuning-results.js';
import { HuggingFaceExports } from './hugging-face-exports.js';
import { type BertStart, openBertStart } from './open-bert-start.js';
import {
  fingerprintsOfTask,
  notesOfTaskData,
  type OpenFineTuningOptions,
  type OpenReportersOptions,
  openFineTuning,
  resumable,
  stepsOfEpoch,
} from './open-fine-tuning.js';
import { fineTuningTasks, type OpenedTask, type TaskMetrics } from './tasks.js';

export interface FineTuneOptions {
  readonly configuration: FineTuningConfiguration;
  /** The seeds to run. Default: the configuration's seeds. */
  readonly seeds?: readonly number[] | undefined;
  /** The processes of the job, including this process. Default: only this process. */
  readonly world?: World | undefined;
  readonly local?: { readonly rank: number; readonly size: number };
  /** The job to which the run belongs. Default: a new job. */
  readonly job?: Job;
  /** Called on rank 0 with progress lines and messages. */
  readonly onMessage: (text: string) => void;
}

/** The check that a value is a complete fine-tuning configuration. */
const configurationOption = objectOption(
  'a configuration that configureFineTuning returned',
  partsNamed(['data', 'start', 'spans', 'optimizer', 'parallel', 'recompute', 'checkpoint', 'tracking']),
);

const checks: OptionChecks<FineTuneOptions> = {
  configuration: required(configurationOption),
  seeds: listOption(wholeNumberOption(0, 2 ** 32 - 1), {
    what: 'an array of one seed or more',
    isEmptyRight: false,
  }),
  world: worldOption,
  local: localOption,
  job: jobOption,
  onMessage: required(functionOption),
};

/** The results of a fine-tuning run. */
export interface FineTuningReport {
  readonly task: FineTuningConfiguration['task'];
  /** The path of the model that the run started from; undefined for a model from scratch. */
  readonly model: string | undefined;
  readonly epochs: number;
  readonly globalBatchSize: number;
  readonly learningRate: number;
  readonly seeds: readonly SeedResult[];
  /** The median of every score over the finished seeds. */
  readonly median: Readonly<Record<string, TaskMetrics>>;
  /** `done`, or the reason why the run ended early. */
  readonly reason: TrainingResult['reason'];
}

/**
 * Fine-tunes a BERT for a task, once for each seed. Every process of a job must call it, and receives the
 * same report.
 *
 * @throws the errors of `openBertStart`, `fineTuningLayout` and the readers of @mtl/data; ConfigurationError
 *   MTL_OPTION, MTL_SEQUENCE_LENGTH, MTL_BATCH_SIZE, MTL_HUGGING_FACE_*, MTL_FLAG_CONFLICT,
 *   MTL_FINE_TUNING_EXISTS, MTL_FINE_TUNING_FOLDER, MTL_FINE_TUNING_RESUME; TrainingError MTL_STOP_SIGNAL if
 *   a signal has ended a run in this process
 */
export async function fineTune(options: FineTuneOptions): Promise<FineTuningReport> {
  checkOptions(options, { of: 'fineTune', checks });
  refuseAfterStopSignal();
  const { world, seeds = options.configuration.seeds } = options;
  const local = options.local ?? { rank: 0, size: 1 };
  const onMessage = (text: string): void => {
    if ((world?.rank ?? 0) === 0) options.onMessage(text);
  };
  const configuration = await withModelsOfHub(options.configuration, { world, onMessage });
  const { checkpoint } = configuration;
  checkSetNames(configuration);
  // the settings are checked here, so that wrong settings are rejected before anything is built
  if ((world?.rank ?? 0) === 0)
    trackingOfRun(trackedSeed(configuration, { seed: seeds[0]!, seeds }), process.env);
  const started = await openStart(configuration, { onMessage, worldSize: world?.size ?? 1 });
  const { parallel, placement } = started.layout;
  openDeviceOfRank(parallel.device, { localRank: local.rank, allowTf32: parallel.allowTf32 });
  const threads = setThreadsOfRank(parallel.threads, { localSize: local.size });
  const processes = new TrainingProcesses({ world, parallel, ends: [placement[0]!, placement.at(-1)!] });
  const job = options.job ?? { id: undefined, restartCount: 0 };
  const saveDirectory = new SaveDirectory({
    // a seed resumes from its own folder
    checkpoint: { save: checkpoint.save, load: checkpoint.save },
    job,
    processes,
    onMessage,
  });
  try {
    await saveDirectory.ownExisting();
    return await fineTuneSeeds(
      { ...options, configuration, seeds, job, onMessage },
      { started, processes, saveDirectory, threads },
    );
  } finally {
    await saveDirectory.release();
  }
}

/**
 * Downloads models from the Hub, and returns the configuration with the local directories in place of the
 * models' names.
 */
async function withModelsOfHub(
  configuration: FineTuningConfiguration,
  { world, onMessage }: Pick<FineTuneOptions, 'world' | 'onMessage'>,
): Promise<FineTuningConfiguration> {
  const { start } = configuration;
  const { tokenizer } = start;
  const isFile = tokenizer?.type === 'HuggingFaceTokenizer';
  const { loadHuggingFace, tokenizerModel } = await fetchFromHub(
    {
      loadHuggingFace: start.loadHuggingFace,
      tokenizerModel: isFile ? tokenizer.tokenizerModel : undefined,
    },
    { group: world?.group, onMessage },
  );
  const located = isFile && tokenizerModel !== undefined ? { ...tokenizer, tokenizerModel } : tokenizer;
  return { ...configuration, start: { ...start, loadHuggingFace, tokenizer: located } };
}

type FineTuningOfSeeds = FineTuneOptions & { readonly seeds: readonly number[]; readonly job: Job };

async function fineTuneSeeds(
  options: FineTuningOfSeeds,
  {
    started,
    processes,
    saveDirectory,
    threads,
  }: {
    readonly started: Started;
    readonly processes: TrainingProcesses;
    readonly saveDirectory: SaveDirectory;
    readonly threads: ThreadChoice;
  },
): Promise<FineTuningReport> {
  const { configuration, seeds, job, onMessage } = options;
  const { checkpoint } = configuration;
  const { parallel } = started.layout;
  const exports = new HuggingFaceExports({ ...started, configuration, seeds, onMessage });
  // only the first rank checks the folder, because other ranks may have separate storage
  await processes.together(async () => {
    if (!processes.isFirst) return;
    await checkSave(configuration, seeds);
    exports.check({ worldSize: parallel.worldSize });
  });
  const setup = setUp({ ...options, ...started, processes, onMessage });
  await saveDirectory.own();
  const writeExport = (seed: number, weights?: () => readonly LogicalTensor[]): Promise<void> =>
    processes.together(async () => {
      if (processes.isFirst) await exports.write(seed, weights);
    });
  const results: SeedResult[] = [];
  let reason: TrainingResult['reason'] = 'done';
  for (const [index, seed] of seeds.entries()) {
    const done = processes.agree(processes.isFirst ? finishedBefore(configuration, seed) : undefined);
    if (done !== undefined) {
      onMessage(`seed ${seed}: done before`);
      await processes.together(async () => {
        if (!processes.isFirst) return;
        for (const note of notesOfDoneSeed(configuration, { seed, fingerprints: setup.fingerprints }))
          onMessage(note);
      });
      results.push(done);
      await writeExport(seed);
      continue;
    }
    const { training, evaluations } = await openFineTuning({
      ...started,
      ...setup,
      configuration,
      seed,
      processes,
      job,
      threads,
      onMessage,
    });
    try {
      ({ reason } = await training.run());
      const isDone = reason === 'done';
      results.push(evaluations.result({ isDone }));
      if (isDone) await writeExport(seed, () => training.weights());
    } finally {
      await training.close();
    }
    // a signal after the last step of this seed is meant for the whole process, so no further seed begins
    if (reason === 'done' && index < seeds.length - 1) reason = signalOfRanks(processes) ?? 'done';
    if (reason !== 'done') break;
  }
  const { optimizer, task, epochs, globalBatchSize } = configuration;
  const report = {
    task,
    model: started.start.path,
    epochs,
    globalBatchSize,
    learningRate: optimizer.learningRate,
    seeds: results,
    median: medianResult(results),
    reason,
  };
  if (processes.isFirst && checkpoint.save !== undefined)
    writeResult(join(checkpoint.save, 'report.json'), report);
  return report;
}

/** The model from which fine-tuning starts, and the layout of the processes that share it. */
interface Started {
  readonly start: BertStart;
  readonly model: BertModelConfiguration;
  readonly sequenceLength: number;
  readonly bertTask: BertTask;
  readonly layout: FineTuningLayout;
}

async function openStart(
  configuration: FineTuningConfiguration,
  { onMessage, worldSize }: { readonly onMessage: (text: string) => void; readonly worldSize: number },
): Promise<Started> {
  const { bertTask, sequenceLength: usual } = fineTuningTasks[configuration.task];
  const start = await openBertStart({
    start: configuration.start,
    task: bertTask,
    onNotice: onMessage,
    sequenceLength: configuration.sequenceLength ?? usual,
  });
  const { dropout } = configuration;
  const model = {
    ...start.model,
    ...(dropout === undefined ? {} : { hiddenDropout: dropout, attentionDropout: dropout }),
  };
  const sequenceLength = checkedSequenceLength(configuration, { model, usual });
  const layout = fineTuningLayout(configuration, { model, worldSize });
  for (const notice of foldNotices(layout.notices)) onMessage(notice);
  return { start, model, sequenceLength, bertTask, layout };
}

/** The state that all seeds share. */
interface Setup {
  readonly task: OpenedTask;
  /** Returns checksums of the task's files. The first call reads the files. */
  readonly fingerprints: () => RunStart['datasets'];
  readonly openReporters: OpenFineTuningOptions['openReporters'];
  readonly onEpoch: (result: EpochResult) => void;
}

function setUp(options: FineTuningOfSeeds & Started & { readonly processes: TrainingProcesses }): Setup {
  const { configuration, processes, onMessage, start, sequenceLength } = options;
  const task = fineTuningTasks[configuration.task].open({
    ...configuration,
    tokenizer: start.tokenizer,
    sequenceLength,
  });
  for (const notice of task.notices) onMessage(notice);
  const stepsPerEpoch = checkedSteps(configuration, task);
  onMessage(
    `${configuration.task} in ${configuration.precision}: ${task.train.length.toLocaleString('en-US')} samples of ${sequenceLength} tokens, ${stepsPerEpoch} steps an epoch` +
      `${fullSequences(task)}`,
  );
  let fingerprints: RunStart['datasets'] | undefined;
  return {
    task,
    fingerprints: () => (fingerprints ??= fingerprintsOfTask(configuration.data)),
    openReporters: async (run) => {
      if (!processes.isFirst) return { all: [], close: async () => [] };
      const { logInterval, epochs } = configuration;
      const lines = stepReporter({ stepsPerEpoch, logInterval, epochs, onMessage });
      const sinks: MetricsSink[] = [...(await openMetrics(options, run)).all];
      try {
        const tracked = trackedSeed(configuration, { seed: run.seed, seeds: options.seeds });
        sinks.push(...(await openTracking({ configuration: tracked, log: run.log, onMessage })));
      } catch (error) {
        await closeAfterError(sinks.map((sink) => () => sink.close('failed')));
        throw error;
      }
      return {
        all: [lines, ...sinks],
        close: async (outcome) => {
          for (const [title, text] of await closeSinks(sinks, outcome)) onMessage(`${title}: ${text}`);
          return [];
        },
      };
    },
    onEpoch: ({ epoch, sets }) => {
      for (const [name, scores] of Object.entries(sets)) {
        const all = Object.entries(scores).map(
          ([key, value]) => `${key} ${value.toFixed(key === 'loss' ? 4 : 2)}`,
        );
        onMessage(`epoch ${epoch}, ${name}: ${all.join(', ')}`);
      }
    },
  };
}

/**
 * Opens two metrics files: one in the seed's folder, and one whose path a flag gives. With several seeds,
 * each seed has a separate file, such as `metrics.seed-2.jsonl`.
 */
async function openMetrics(
  { configuration, seeds, onMessage }: FineTuningOfSeeds,
  { seed, resumeIteration }: OpenReportersOptions,
): Promise<MetricsFiles> {
  const { metricsJsonl, checkpoint } = configuration;
  const { dir, name, ext } = parse(metricsJsonl ?? '');
  return await openMetricsFiles({
    directory: checkpoint.save === undefined ? undefined : seedDirectory(checkpoint.save, seed),
    copy:
      seeds.length === 1 || metricsJsonl === undefined
        ? metricsJsonl
        : join(dir, `${name}.seed-${seed}${ext}`),
    onStep: (step) => ({ ...step, otherLosses: { task_loss: step.loss } }),
    resumeIteration,
    onMessage,
  });
}

/**
 * Returns a message that says how many sequences have the full sequence length, because these may have been
 * truncated.
 */
function fullSequences({ train }: OpenedTask): string {
  const { offsets, sequenceLength } = train.description;
  let numFull = 0;
  for (let index = 1; index < offsets.length; index++)
    if (offsets[index]! - offsets[index - 1]! === sequenceLength) numFull++;
  return numFull === 0
    ? ''
    : `; ${numFull.toLocaleString('en-US')} sequences fill them, longer ones were truncated`;
}

function checkedSequenceLength(
  { sequenceLength: asked }: FineTuningConfiguration,
  { model, usual }: { readonly model: BertModelConfiguration; readonly usual: number },
): number {
  const { maxPositionEmbeddings } = model;
  const length = asked ?? Math.min(usual, maxPositionEmbeddings);
  if (length <= maxPositionEmbeddings) return length;
  throw new ConfigurationError('MTL_SEQUENCE_LENGTH', `--seq-length ${length} is more than the model sees`, {
    expected: `at most ${maxPositionEmbeddings}, its position embeddings`,
  });
}

function checkedSteps(configuration: FineTuningConfiguration, { train }: OpenedTask): number {
  const { globalBatchSize } = configuration;
  const steps = stepsOfEpoch(train, configuration);
  if (steps > 0) return steps;
  throw new ConfigurationError(
    'MTL_BATCH_SIZE',
    `--global-batch-size ${globalBatchSize} is more than the ${train.length} samples of ${configuration.data.train}`,
    { expected: `at most ${train.length}` },
  );
}

/**
 * Checks that the evaluated sets have different names, because scores and predictions are stored by name.
 *
 * @throws ConfigurationError MTL_FLAG_CONFLICT
 */
function checkSetNames({ task, data }: FineTuningConfiguration): void {
  const paths = [...data.valid, ...data.test];
  const { setName } = fineTuningTasks[task];
  const second = paths.find((path, index) =>
    paths.slice(0, index).some((other) => setName(other) === setName(path)),
  );
  if (second === undefined) return;
  const first = paths.find((path) => setName(path) === setName(second));
  throw new ConfigurationError(
    'MTL_FLAG_CONFLICT',
    `${first} and ${second}: results of both would be called ${setName(second)}`,
    { expected: 'sets of different names', remedy: 'rename one, or score it in a run of its own' },
  );
}

/**
 * Checks that the run would not overwrite results in its folder. If the folder contains results, the run must
 * resume.
 */
async function checkSave(configuration: FineTuningConfiguration, seeds: readonly number[]): Promise<void> {
  const { save, resume } = configuration.checkpoint;
  if (save === undefined) {
    if (!resume) return;
    throw new ConfigurationError('MTL_FLAG_NEEDS', '--resume goes on from what is in --save', {
      expected: '--save DIR',
    });
  }
  for (const seed of seeds) {
    const directory = seedDirectory(save, seed);
    if (!existsSync(directory) || namesIn(directory).length === 0) continue;
    if (!resume) {
      throw new ConfigurationError('MTL_FINE_TUNING_EXISTS', `${directory} holds a fine-tuning already`, {
        expected: 'a new or an empty directory for --save',
        remedy: 'pass --resume to go on with it',
      });
    }
    await checkSameRun(configuration, directory);
    checkSameSets(configuration, directory);
  }
}

/**
 * Returns the names of the files and folders in `directory`.
 *
 * @throws ConfigurationError MTL_FINE_TUNING_FOLDER
 */
function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (cause) {
    throw new ConfigurationError(
      'MTL_FINE_TUNING_FOLDER',
      `--save: cannot list ${directory}: ${(cause as Error).message}`,
      {
        expected: 'a directory, which the checkpoints and results of a seed are saved to',
        remedy: 'move what is there, or name another place with --save',
        cause,
      },
    );
  }
}

/**
 * Throws if the settings of the run to resume differ from `configuration`.
 *
 * @throws ConfigurationError MTL_FINE_TUNING_RESUME
 */
async function checkSameRun(configuration: FineTuningConfiguration, directory: string): Promise<void> {
  const found = await findCheckpoint({ directory, onNotice: () => {} });
  if (found.kind === 'none') return;
  const { checkpoint } = found;
  const { configuration: saved } = readTrainingState(checkpoint.state, checkpoint.path);
  const before = (saved as { readonly fineTuning?: Record<string, unknown> }).fineTuning ?? {};
  const now = JSON.parse(JSON.stringify(resumable(configuration))) as Record<string, unknown>;
  const text = (value: unknown): string => JSON.stringify(value) ?? 'nothing';
  const changed = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter(
    (key) => text(before[key]) !== text(now[key]),
  );
  if (changed.length === 0) return;
  const [first] = changed as [string, ...string[]];
  throw new ConfigurationError(
    'MTL_FINE_TUNING_RESUME',
    `${directory} holds a fine-tuning of other settings: ${changed.join(', ')}`,
    {
      expected: `${first} ${text(before[first])}, not ${text(now[first])}`,
      remedy: 'pass the flags of that run, or another --save',
    },
  );
}

/**
 * Throws if the sets of examples in the stored results differ from the configured sets. Checkpoints also
 * record the sets, but may have been deleted.
 *
 * @throws the errors of `checkSameRun`
 */
function checkSameSets({ task, data }: FineTuningConfiguration, directory: string): void {
  const path = resultPath(directory);
  const last = readSeedResult(path)?.epochs.at(-1);
  if (last === undefined) return;
  const [before, now] = [Object.keys(last.sets), data.valid.map(fineTuningTasks[task].setName)];
  if (`${before.toSorted()}` === `${now.toSorted()}`) return;
  throw new ConfigurationError('MTL_FINE_TUNING_RESUME', `${path} holds results of other sets`, {
    expected: `${before.join(', ')}, not ${now.join(', ')}`,
    remedy: 'pass the flags of that run, or another --save',
  });
}

function finishedBefore({ checkpoint }: FineTuningConfiguration, seed: number): SeedResult | undefined {
  const { save, resume } = checkpoint;
  if (save === undefined || !resume) return undefined;
  const result = readSeedResult(resultPath(seedDirectory(save, seed)));
  return result?.isDone === true ? result : undefined;
}

/**
 * Returns notes if a finished seed was trained on data that differ from the current files. Returns no notes
 * if the seed has no record of its data.
 */
function notesOfDoneSeed(
  { checkpoint }: FineTuningConfiguration,
  { seed, fingerprints }: { readonly seed: number } & Pick<Setup, 'fingerprints'>,
): readonly string[] {
  const path = seedDirectory(checkpoint.save!, seed);
  const before = readLastStart(path);
  if (before === undefined) return [];
  const { start, why } = before;
  if (start === undefined) return [noteOfUnknownData(why, path)];
  return notesOfTaskData(fingerprints(), { start, path });
}

/** Returns a reporter that prints a line every `logInterval` steps. */
function stepReporter(options: {
  readonly stepsPerEpoch: number;
  readonly epochs: number;
  readonly logInterval: number;
  readonly onMessage: (text: string) => void;
}): TrainingReporter {
  const { stepsPerEpoch, epochs, logInterval, onMessage } = options;
  const numSteps = stepsPerEpoch * epochs;
  let samples = 0;
  let milliseconds = 0;
  let losses: number[] = [];
  return {
    step: (step) => {
      samples += step.globalBatchSize;
      milliseconds += step.stepMs;
      losses.push(step.loss);
      if (step.iteration % logInterval !== 0 && step.iteration !== numSteps) return;
      const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
      const epoch = Math.ceil(step.iteration / stepsPerEpoch);
      onMessage(
        `step ${step.iteration}/${numSteps} (epoch ${epoch}/${epochs}) | loss ${mean.toFixed(4)} | ` +
          `learning rate ${step.learningRate.toExponential(3)} | grad norm ${step.gradNorm.toFixed(3)} | ` +
          `${((samples * 1000) / milliseconds).toFixed(1)} samples/s`,
      );
      [samples, milliseconds, losses] = [0, 0, []];
    },
    message: onMessage,
  };
}

/**
 * Returns the tracking services for one seed of a fine-tuning. Each seed is a separate run in these services.
 * The run's name comes from a flag or from --save; with several seeds, the seed is appended.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS, MTL_SERVICE_URL
 */
function trackedSeed(
  { tracking, checkpoint }: Pick<FineTuningConfiguration, 'tracking' | 'checkpoint'>,
  { seed, seeds }: { readonly seed: number; readonly seeds: readonly number[] },
): TrackedConfiguration {
  const given = Object.entries(tracking).filter(([, value]) => value !== undefined);
  const flags = new FlagReader(
    resolveFlags({ preset: 'none', model: 'bert', given: new Map(given as [FlagName, unknown][]) }),
  );
  const { wandb, mlflow } = trackingConfiguration(flags);
  const { save } = checkpoint;
  if (save === undefined) {
    const named = wandb === undefined ? 'mlflow-tracking-uri' : 'wandb-project';
    if (wandb ?? mlflow) flags.needs(named, '--save DIR', 'sends metrics from there');
    return { logging: {}, checkpoint: {} };
  }
  const nameRun = (name = basename(resolve(save))): string =>
    seeds.length === 1 ? name : `${name}-seed-${seed}`;
  return {
    logging: {
      ...(wandb && { wandb: { ...wandb, name: nameRun(wandb.name) } }),
      ...(mlflow && { mlflow: { ...mlflow, name: nameRun(mlflow.name) } }),
    },
    checkpoint: { save: seedDirectory(save, seed) },
  };
}

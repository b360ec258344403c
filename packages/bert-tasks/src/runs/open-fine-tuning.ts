import type { Checkpoint, JsonObject } from '@mtl/checkpoint';
import { inWordsOfFlags } from '@mtl/configuration/flags';
import { savedModelKeys, saveTokenizer } from '@mtl/configuration/saved';
import { numSharesOfBatch } from '@mtl/configuration/strategies';
import type { TaskDataset } from '@mtl/data';
import { countElements } from '@mtl/kernels';
import type { TaskTokenBatch } from '@mtl/layout';
import {
  type BertModelConfiguration,
  type BertTask,
  type BertTaskStage,
  bertMatmuls,
  bertTaskEmbeddingAndHeadCost,
  bertTaskParameters,
  buildBertTaskStages,
  type TransformerConfiguration,
} from '@mtl/models';
import { LearningRateSchedule, LossScaler, type ModelOptimizer, NumMicroBatches } from '@mtl/optimizer';
import type { RunStart } from '@mtl/run-records';
import type { TrainingProcesses } from '@mtl/runs';
import {
  closeAfterError,
  dataChanges,
  dtypeOfPrecision,
  findStart,
  type Job,
  modelPart,
  noteOfUnknownData,
  notesOfDataChanges,
  optimizerOfPart,
  type RankModel,
  RunLog,
  type RunReporters,
  SaveDirectory,
  startOfCheckpoint,
  type ThreadChoice,
  Training,
  taskDataFingerprint,
} from '@mtl/runs/lifecycle';
import { modelFlops, Trainer, weightTensors } from '@mtl/trainer';
import type { FineTuningConfiguration } from '../flags/fine-tuning-configuration.js';
import type { FineTuningLayout } from './fine-tuning-layout.js';
import { type EpochResult, seedDirectory } from './fine-tuning-results.js';
import type { BertStart } from './open-bert-start.js';
import { type TaskBatches, TaskEvaluations, taskBatches } from './task-evaluations.js';
import type { OpenedTask } from './tasks.js';

export interface OpenReportersOptions {
  readonly seed: number;
  readonly resumeIteration: number;
  /** The log of the run. Defined only on the first rank, and only if the seed has a folder. */
  readonly log: RunLog | undefined;
}

export interface OpenFineTuningOptions {
  readonly configuration: FineTuningConfiguration;
  readonly seed: number;
  readonly start: BertStart;
  readonly model: BertModelConfiguration;
  readonly sequenceLength: number;
  readonly bertTask: BertTask;
  readonly layout: FineTuningLayout;
  readonly task: OpenedTask;
  /** Returns checksums of the task's files (see `fingerprintsOfTask`). All seeds share them. */
  readonly fingerprints: () => RunStart['datasets'];
  readonly processes: TrainingProcesses;
  readonly job: Job;
  /** How many threads this rank's kernels use, and why. */
  readonly threads: ThreadChoice;
  /** Opens the reporters that receive the results of steps; only rank 0 has reporters. */
  readonly openReporters: (options: OpenReportersOptions) => Promise<RunReporters>;
  readonly onMessage: (text: string) => void;
  readonly onEpoch: (result: EpochResult) => void;
}

/** The fine-tuning run of a seed, and the evaluations of its model. */
export interface OpenedFineTuning {
  readonly training: Training<TaskTokenBatch, FineTuningConfiguration>;
  readonly evaluations: TaskEvaluations;
}

type RankTaskModel = RankModel<TaskTokenBatch, BertTaskStage>;

/**
 * Opens the fine-tuning run of a seed: the model, with initial weights or the seed's saved state, and the
 * record in the seed's folder. The run then owns this folder. Every process must call it.
 */
export async function openFineTuning(options: OpenFineTuningOptions): Promise<OpenedFineTuning> {
  const { configuration, seed, layout, processes, job, task, threads, onMessage } = options;
  const { checkpoint, exitInterval } = configuration;
  const directory = checkpoint.save === undefined ? undefined : seedDirectory(checkpoint.save, seed);
  const part = partOfTask(options);
  const optimizer = optimizerOfTask(options, part);
  const lossScaler = new LossScaler(
    configuration.precision === 'fp16' ? { kind: 'dynamic', initialScale: 2 ** 16 } : { kind: 'constant' },
  );
  const owner = new SaveDirectory({ checkpoint: { save: directory }, job, processes, onMessage });
  let log: RunLog | undefined;
  let batches: TaskBatches | undefined;
  let iteration = 0;
  try {
    await loadStart(optimizer, options);
    await owner.own();
    let loaded: Checkpoint | undefined;
    const onOpen = (checkpoint: Checkpoint): void => {
      loaded = checkpoint;
    };
    const progress = await resume(options, { directory, optimizer, lossScaler, onOpen });
    iteration = progress?.iteration ?? 0;
    const stepsPerEpoch = stepsOfEpoch(task.train, configuration);
    const evaluations = new TaskEvaluations({
      ...options,
      directory,
      iteration,
      resume: checkpoint.resume,
      evaluate: {
        pipeline: part.pipeline,
        microBatchSize: configuration.microBatchSize,
        // in a pipeline, an evaluation groups its micro-batches by the number of micro-batches in a step,
        // because the schedule was made for this number
        numMicroBatches: part.placement.length === 1 ? 1 : layout.numMicroBatches,
        isCut: isCut(options),
      },
    });
    // only the first rank reads all data to compute checksums
    log = await processes.together(async () => {
      if (!processes.isFirst) return undefined;
      for (const note of notesOfData(options, loaded)) onMessage(note);
      return startLog(options, { directory, iteration, stepsPerEpoch });
    });
    batches = openBatches(options, progress?.consumedSamples ?? 0);
    const parts = { part, optimizer, lossScaler, batches };
    const trainer = createTrainer(options, { ...parts, stepsPerEpoch, progress });
    const reporters = await options.openReporters({ seed, resumeIteration: iteration, log });
    const training = new Training<TaskTokenBatch, FineTuningConfiguration>({
      ...parts,
      configuration,
      processes,
      threads,
      exitInterval,
      trainer,
      log,
      reporters,
      model: options.model,
      tokenizer: options.start.tokenizer,
      save: {
        directory,
        owner,
        loaded,
        interval: checkpoint.saveInterval ?? stepsPerEpoch,
        keepLast: checkpoint.keepLast,
        configurationFor: (path) => savedConfiguration(path, options),
      },
      evaluation: {
        interval: stepsPerEpoch,
        run: () => {
          const { iteration: at } = trainer.progress;
          return evaluations.afterEpoch({ epoch: at / stepsPerEpoch, iteration: at });
        },
      },
      onEnd: ({ reason }) => evaluations.atEnd({ isDone: reason === 'done' }),
    });
    return { training, evaluations };
  } catch (error) {
    log?.fail(error, { iteration });
    await closeAfterError([
      () => owner.release(),
      () => optimizer.dispose(),
      () => part.dispose(),
      () => batches?.close(),
    ]);
    throw error;
  }
}

function partOfTask(options: OpenFineTuningOptions): RankTaskModel {
  const { configuration, layout, processes, model, bertTask, seed, sequenceLength, onMessage } = options;
  const { parallel, recompute, numMicroBatches } = layout;
  return modelPart<TransformerConfiguration, TaskTokenBatch, BertTaskStage>({
    model,
    processes,
    onMessage,
    configuration: { parallel, training: { numMicroBatches, seed, recompute } },
    dtype: dtypeOfPrecision[configuration.precision],
    recorder: undefined,
    work: bertTaskEmbeddingAndHeadCost(model, { sequenceLength, task: bertTask }),
    // the cast is safe because this callback is only called with the BERT model above
    buildStages: (stages) => buildBertTaskStages({ ...stages, model, task: bertTask }),
  });
}

/** Loads the initial weights. The task's head and other missing weights keep their random initial values. */
async function loadStart(
  optimizer: ModelOptimizer,
  { start, seed, model, bertTask, onMessage }: OpenFineTuningOptions,
): Promise<void> {
  const loaded = weightTensors(optimizer).filter((tensor) => start.has(tensor));
  const held = loaded.filter(({ slices }) => slices.every(({ start, end }) => start < end));
  await start.load(held);
  optimizer.refreshModel();
  // the parameters are counted over the complete model, on all ranks
  const all = bertTaskParameters(model, bertTask);
  const numParameters = all.reduce((sum, { globalShape }) => sum + countElements(globalShape), 0);
  const fresh = all.filter((parameter) => !start.has(parameter)).map(({ name }) => name);
  const from =
    start.path === undefined ? 'all initial' : `of ${start.path}; initial: ${fresh.join(', ') || 'none'}`;
  onMessage(`seed ${seed}: ${numParameters.toLocaleString('en-US')} parameters, ${from}`);
}

async function resume(
  { configuration, seed, model, bertTask, processes, onMessage }: OpenFineTuningOptions,
  parts: {
    readonly directory: string | undefined;
    readonly optimizer: ModelOptimizer;
    readonly lossScaler: LossScaler;
    readonly onOpen: (checkpoint: Checkpoint) => void;
  },
) {
  const { directory, ...loaded } = parts;
  if (directory === undefined || !configuration.checkpoint.resume) return undefined;
  const start = await findStart({
    ...loaded,
    processes,
    onMessage,
    // a resumed run loads the model, the optimizer and the random state from its own checkpoint
    checkpoint: { finetune: false, loadOptimizer: true, loadRng: true },
    huggingFace: undefined,
    parameterNames: bertTaskParameters(model, bertTask).map(({ name }) => name),
    restartFrom: { directory, job: 'any' },
    nothingSaved: `seed ${seed}: nothing was saved yet, it begins at its first step`,
  });
  return await start.load();
}

function optimizerOfTask(
  { configuration, layout, processes, seed }: OpenFineTuningOptions,
  part: RankTaskModel,
): ModelOptimizer {
  try {
    return optimizerOfPart(part, {
      processes,
      device: layout.parallel.device,
      dtype: dtypeOfPrecision[configuration.precision],
      configuration: {
        // Adam's settings for BERT's fine-tuning (Devlin et al. 2018)
        optimizer: { ...configuration.optimizer, adamBeta1: 0.9, adamBeta2: 0.999, adamEpsilon: 1e-8 },
        parallel: layout.parallel,
        training: { seed },
      },
    });
  } catch (error) {
    part.dispose();
    throw error;
  }
}

/** Returns notes if the data differ from the data with which the resumed checkpoint was trained. */
function notesOfData(
  { fingerprints }: OpenFineTuningOptions,
  loaded: Checkpoint | undefined,
): readonly string[] {
  if (loaded === undefined) return [];
  const { start, why } = startOfCheckpoint(loaded);
  if (start === undefined) return [noteOfUnknownData(why, loaded.path)];
  return notesOfTaskData(fingerprints(), { start, path: loaded.path });
}

/** Returns notes if the task's files differ from the files that an earlier start of the run recorded. */
export function notesOfTaskData(
  [train, ...others]: RunStart['datasets'],
  { start, path }: { readonly start: RunStart; readonly path: string },
): readonly string[] {
  const [before, ...othersBefore] = start.datasets;
  const { workingDirectory } = start;
  return notesOfDataChanges({
    training: dataChanges({ workingDirectory, datasets: before === undefined ? [] : [before] }, [train!]),
    evaluation: dataChanges({ workingDirectory, datasets: othersBefore }, others),
    path,
  });
}

function startLog(
  { configuration, seed, layout, threads, fingerprints, onMessage }: OpenFineTuningOptions,
  at: {
    readonly directory: string | undefined;
    readonly iteration: number;
    readonly stepsPerEpoch: number;
  },
): RunLog | undefined {
  const { directory, iteration, stepsPerEpoch } = at;
  const { task, epochs } = configuration;
  return RunLog.start({
    directory,
    threads,
    iteration,
    onMessage,
    configuration: {
      kind: 'bert',
      preset: 'none',
      task,
      flags: { ...configuration.flags, seeds: seed },
      parallel: layout.parallel,
      training: { trainIterations: epochs * stepsPerEpoch },
    },
    datasets: fingerprints,
  });
}

/** Returns checksums of a task's files, the training data first. It reads all files completely. */
export const fingerprintsOfTask = ({
  train,
  valid,
  test,
}: FineTuningConfiguration['data']): RunStart['datasets'] =>
  [train, ...valid, ...test].map((path) => taskDataFingerprint(path, { isWhole: true }));

/**
 * Returns true if micro-batches are truncated to their longest row. Truncation helps only a head with a logit
 * for every token, which then computes no logits for padding. Other heads do not process padding, and for
 * these heads untruncated micro-batches mean fewer shapes.
 */
const isCut = ({ bertTask }: OpenFineTuningOptions): boolean => bertTask.kind === 'span';

function openBatches(options: OpenFineTuningOptions, consumedSamples: number): TaskBatches {
  const { configuration, seed, task, processes } = options;
  const { globalBatchSize, microBatchSize } = configuration;
  return taskBatches({
    seed,
    consumedSamples,
    globalBatchSize,
    microBatchSize,
    dataset: task.train,
    isCut: isCut(options),
    shareOfBatch: processes.shareOfBatch,
  });
}

function createTrainer(
  { configuration, layout, model, sequenceLength, task }: OpenFineTuningOptions,
  parts: {
    readonly part: RankTaskModel;
    readonly optimizer: ModelOptimizer;
    readonly lossScaler: LossScaler;
    readonly batches: TaskBatches;
    readonly stepsPerEpoch: number;
    readonly progress: Awaited<ReturnType<typeof resume>>;
  },
): Trainer<TaskTokenBatch> {
  const { part, stepsPerEpoch, progress, ...loop } = parts;
  const { optimizer, globalBatchSize, microBatchSize, epochs } = configuration;
  const { device } = layout.parallel;
  const numShares = numSharesOfBatch(layout.parallel);
  const trainIterations = epochs * stepsPerEpoch;
  const warmupSteps = optimizer.warmupFraction * trainIterations;
  const schedule = inWordsOfFlags(
    () =>
      new LearningRateSchedule({
        maxLearningRate: optimizer.learningRate,
        minLearningRate: optimizer.minLearningRate,
        decayStyle: optimizer.decayStyle,
        // a warm-up shorter than one step would affect only the first step, which would get a rate of 0
        warmupSteps: warmupSteps < 1 ? 0 : warmupSteps,
        decaySteps: trainIterations,
      }),
  );
  return new Trainer({
    ...loop,
    device,
    sequenceLength,
    trainIterations,
    pipeline: part.pipeline,
    losses: [{ name: 'task_loss', per: 'sample', count: ({ batchSize }) => batchSize }],
    learningRate: ({ numUpdates }) => schedule.at(numUpdates),
    microBatches: new NumMicroBatches({ globalBatchSize, microBatchSize, numShares }),
    flopsPerSample: modelFlops({
      batchSize: task.train.description.numChoices,
      sequenceLength,
      // the head is not counted, because a few outputs add hardly any FLOPs
      ...bertMatmuls(model),
    }),
    ...(progress === undefined ? {} : { progress }),
  });
}

/**
 * Returns the configuration that the run's checkpoints store. The tokenizer's files are copied next to the
 * checkpoints.
 */
async function savedConfiguration(
  directory: string,
  { model, start, configuration }: OpenFineTuningOptions,
): Promise<JsonObject> {
  const tokenizer = await saveTokenizer(directory, start.tokenizer);
  const saved = { [savedModelKeys.bert]: model, fineTuning: resumable(configuration), ...tokenizer };
  // the conversion removes undefined values, which JSON cannot store
  return JSON.parse(JSON.stringify(saved)) as JsonObject;
}

/** Returns the number of steps in an epoch: the number of complete global batches. */
export function stepsOfEpoch(
  { length }: Pick<TaskDataset, 'length'>,
  { globalBatchSize }: Pick<FineTuningConfiguration, 'globalBatchSize'>,
): number {
  return Math.floor(length / globalBatchSize);
}

/**
 * Returns the settings that must not change when a run is resumed: all settings except layout, recomputation,
 * paths and reports. The evaluated sets are included, because the report compares all seeds on these sets.
 */
export function resumable(configuration: FineTuningConfiguration) {
  const { task, data, start, sequenceLength, spans, epochs, globalBatchSize, microBatchSize } = configuration;
  const { optimizer, dropout, precision } = configuration;
  return {
    task,
    data: { train: data.train, valid: data.valid },
    start,
    sequenceLength,
    spans,
    epochs,
    globalBatchSize,
    microBatchSize,
    optimizer,
    dropout,
    precision,
  };
}

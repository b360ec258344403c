import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject, LogicalTensor, OwnedDirectory } from '@mtl/checkpoint';
import { inWordsOfFlags, savedModelKeys, saveTokenizer } from '@mtl/configuration';
import type { TaskDataset, TaskTokenBatch } from '@mtl/data/tasks';
import { sizeOf } from '@mtl/kernels';
import {
  type BertModelConfiguration,
  type BertTask,
  type BertTaskStage,
  bertMatmuls,
  bertTaskEmbeddingAndHeadCost,
  bertTaskParameters,
  buildBertTaskStages,
} from '@mtl/models';
import { LearningRateSchedule, NumMicroBatches } from '@mtl/optimizer';
import {
  modelFlops,
  type RunOutcome,
  type Trainer,
  type TrainingProgress,
  type TrainingReporter,
  type TrainingResult,
} from '@mtl/trainer';
import { resultOf } from '@mtl/trainer/internal';
import { SaveDirectory } from '../checkpoints/save-directory.js';
import { dtypeOfPrecision } from '../models/dtype-of-precision.js';
import { RunLog } from '../runs/run-log.js';
import { taskDataFingerprint } from '../runs/task-data-fingerprint.js';
import type { ThreadChoice } from '../threads/choose-threads.js';
import { AssembledTraining } from '../training/assembled-training.js';
import { outcomeOf } from '../training/outcome-of.js';
import type { Job } from '../training/read-job.js';
import type { TrainingProcesses } from '../training/training-processes.js';
import { evaluateTaskSet } from './evaluate-task-set.js';
import type { FineTuningConfiguration } from './fine-tuning-configuration.js';
import { fineTuningFlags } from './fine-tuning-flags.js';
import type { FineTuningLayout } from './fine-tuning-layout.js';
import {
  type EpochResult,
  readSeedResult,
  type SeedResult,
  type SetResult,
  writeResult,
} from './fine-tuning-results.js';
import type { BertStart } from './open-bert-start.js';
import { type TaskBatches, taskBatches } from './task-batches.js';
import type { OpenedTask, TaskSet } from './task-set.js';

export interface OpenReportersOptions {
  readonly seed: number;
  readonly resumeIteration: number;
  /** Of the first rank, where the seed has a folder. */
  readonly log: RunLog | undefined;
}

export interface FineTuningReporters {
  readonly all: readonly TrainingReporter[];
  close(outcome: RunOutcome): Promise<void>;
}

export interface FineTuningRunOptions {
  readonly configuration: FineTuningConfiguration;
  readonly seed: number;
  readonly start: BertStart;
  readonly model: BertModelConfiguration;
  readonly sequenceLength: number;
  readonly bertTask: BertTask;
  readonly layout: FineTuningLayout;
  readonly task: OpenedTask;
  readonly processes: TrainingProcesses;
  readonly job: Job;
  /** Of this rank's kernels. */
  readonly threads: ThreadChoice;
  /** Of rank 0: the directory of --save, if there is one. */
  readonly owned: OwnedDirectory | undefined;
  /** What reports steps; only rank 0 has any. */
  readonly openReporters: (options: OpenReportersOptions) => Promise<FineTuningReporters>;
  readonly onMessage: (text: string) => void;
  readonly onEpoch: (result: EpochResult) => void;
}

/** What the fine-tuning of a seed gave, and why it ended. */
interface FineTuningEnd {
  readonly result: SeedResult;
  readonly reason: TrainingResult['reason'];
}

/** The fine-tuning of one seed. Every process runs it. */
export class FineTuningRun {
  readonly #options: FineTuningRunOptions;
  readonly #directory: string | undefined;
  readonly #assembled: AssembledTraining<TaskTokenBatch, BertTaskStage>;
  #epochs: readonly EpochResult[] = [];
  #predictions: readonly string[] = [];

  /** Builds the model with its weights. Nothing is trained yet. */
  static async build(options: FineTuningRunOptions): Promise<FineTuningRun> {
    const run = new FineTuningRun(options);
    await run.#loadStart();
    return run;
  }

  private constructor(options: FineTuningRunOptions) {
    const { configuration, layout, processes, model, bertTask, seed, sequenceLength } = options;
    const { optimizer, checkpoint } = configuration;
    const { parallel, recompute, numMicroBatches } = layout;
    this.#options = options;
    this.#directory = checkpoint.save === undefined ? undefined : seedDirectory(checkpoint.save, seed);
    this.#assembled = new AssembledTraining({
      configuration: {
        // Adam as BERT's fine-tuning has it (Devlin et al. 2018)
        optimizer: { ...optimizer, adamBeta1: 0.9, adamBeta2: 0.999, adamEpsilon: 1e-8 },
        parallel,
        training: { numMicroBatches, seed, recompute },
      },
      model,
      processes,
      dtype: dtypeOfPrecision[configuration.precision],
      recorder: undefined,
      onMessage: options.onMessage,
      work: bertTaskEmbeddingAndHeadCost(model, { sequenceLength, task: bertTask }),
      // the model is the BERT above
      buildStages: (stages) => buildBertTaskStages({ ...stages, model, task: bertTask }),
      lossScale:
        configuration.precision === 'fp16'
          ? { kind: 'dynamic', initialScale: 2 ** 16 }
          : { kind: 'constant' },
    });
  }

  /** Trains to the last epoch, or until a signal. The folder of the seed is owned and has its record. */
  async run(): Promise<FineTuningEnd> {
    const { processes, job, onMessage } = this.#options;
    const checkpoint = { save: this.#directory };
    const ownedFolder = new SaveDirectory({ checkpoint, job, processes, onMessage });
    await ownedFolder.own();
    try {
      return await this.#runOwned();
    } finally {
      await ownedFolder.release();
    }
  }

  async #runOwned(): Promise<FineTuningEnd> {
    const { configuration, processes, task } = this.#options;
    const stepsPerEpoch = stepsOfEpoch(task.train, configuration);
    const progress = await this.#resume();
    const iteration = progress?.iteration ?? 0;
    this.#epochs = (this.#leftBehind()?.epochs ?? []).filter((epoch) => epoch.iteration <= iteration);
    const log = processes.isFirst ? this.#startLog({ iteration, stepsPerEpoch }) : undefined;
    const batches = this.#batches(progress?.consumedSamples ?? 0);
    const trainer = this.#trainer({ batches, stepsPerEpoch, progress });
    try {
      const end = await this.#train({ trainer, stepsPerEpoch, iteration, log });
      log?.end({ reason: end.reason, iteration: trainer.progress.iteration });
      return end;
    } catch (error) {
      log?.fail(error, trainer.progress);
      throw error;
    } finally {
      await batches.close();
    }
  }

  #startLog({ iteration, stepsPerEpoch }: { iteration: number; stepsPerEpoch: number }): RunLog | undefined {
    const { configuration, seed, layout, threads, onMessage } = this.#options;
    const { task, data, epochs } = configuration;
    return RunLog.start({
      directory: this.#directory,
      configuration: {
        kind: 'bert',
        preset: 'none',
        task,
        flags: fineTuningFlags(configuration, seed),
        parallel: layout.parallel,
        training: { trainIterations: epochs * stepsPerEpoch },
      },
      datasets: () => [data.train, ...data.valid, ...data.test].map(taskDataFingerprint),
      threads,
      iteration,
      onMessage,
    });
  }

  async #train({
    trainer,
    stepsPerEpoch,
    iteration,
    log,
  }: {
    readonly trainer: Trainer<TaskTokenBatch>;
    readonly stepsPerEpoch: number;
    readonly iteration: number;
    readonly log: RunLog | undefined;
  }): Promise<FineTuningEnd> {
    const { configuration, seed, onMessage } = this.#options;
    const { checkpoint } = configuration;
    const reporters = await this.#options.openReporters({ seed, resumeIteration: iteration, log });
    let outcome: RunOutcome = 'failed';
    try {
      const steps = this.#assembled.steps({
        trainer,
        reporters: reporters.all,
        exitInterval: configuration.exitInterval,
        onMessage,
        save: {
          directory: this.#directory,
          owned: this.#options.owned,
          interval: checkpoint.saveInterval ?? stepsPerEpoch,
          keepLast: checkpoint.keepLast,
          tokenizer: this.#options.start.tokenizer,
          configurationFor: (directory) => this.#savedConfiguration(directory),
        },
        evaluation: {
          interval: stepsPerEpoch,
          run: () => this.#evaluateEpoch({ iteration: trainer.progress.iteration, stepsPerEpoch }),
        },
        onEnd: ({ reason }) => this.#end(reason),
      });
      const end = await resultOf(steps);
      outcome = outcomeOf(end.reason);
      return end;
    } finally {
      await reporters.close(outcome);
    }
  }

  /** Predicts the sets without labels where it is done, and writes the results. */
  async #end(reason: TrainingResult['reason']): Promise<FineTuningEnd> {
    const { seed, processes } = this.#options;
    const isDone = reason === 'done';
    if (isDone) await this.#predictTests();
    const result = { seed, epochs: this.#epochs, predictions: this.#predictions, isDone };
    if (processes.isFirst && this.#directory !== undefined) writeResult(resultPath(this.#directory), result);
    return { result, reason };
  }

  /** What it has learnt, as far as this process holds it. */
  weights(): readonly LogicalTensor[] {
    return this.#assembled.weights();
  }

  dispose(): void {
    this.#assembled.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /**
   * Weights that the start has; the head of a task, and what else it has not got, keep their initial values.
   */
  async #loadStart(): Promise<void> {
    const { start, onMessage, seed } = this.#options;
    const loaded = this.#assembled.weights().filter((tensor) => start.has(tensor));
    const held = loaded.filter(({ slices }) => slices.every(({ start, end }) => start < end));
    await start.load(held);
    this.#assembled.optimizer.refreshModel();
    const all = this.#parametersOfModel();
    const numParameters = all.reduce((sum, { globalShape }) => sum + sizeOf(globalShape), 0);
    const fresh = all.filter((parameter) => !start.has(parameter)).map(({ name }) => name);
    const from =
      start.path === undefined ? 'all initial' : `of ${start.path}; initial: ${fresh.join(', ') || 'none'}`;
    onMessage(`seed ${seed}: ${numParameters.toLocaleString('en-US')} parameters, ${from}`);
  }

  /** Of the whole model, on whichever ranks they are. */
  #parametersOfModel() {
    const { model, bertTask } = this.#options;
    return bertTaskParameters(model, bertTask);
  }

  async #resume() {
    const { configuration, seed, onMessage } = this.#options;
    if (this.#directory === undefined || !configuration.checkpoint.resume) return undefined;
    return await this.#assembled.load({
      checkpoint: noCheckpoint,
      huggingFace: undefined,
      parameterNames: this.#parametersOfModel().map(({ name }) => name),
      onMessage,
      restartFrom: { directory: this.#directory, job: 'any' },
      nothingSaved: `seed ${seed}: nothing was saved yet, it begins at its first step`,
    });
  }

  /** What the first rank finds, on all ranks: others may have storage of their own. */
  #leftBehind(): SeedResult | undefined {
    const { configuration, processes } = this.#options;
    if (this.#directory === undefined || !configuration.checkpoint.resume) return undefined;
    return processes.agree(processes.isFirst ? readSeedResult(resultPath(this.#directory)) : undefined);
  }

  /**
   * Heads with a logit for every token compute none for padding; others see no padding, and shapes stay few.
   */
  get #isCut(): boolean {
    return this.#options.bertTask.kind === 'span';
  }

  #batches(consumedSamples: number): TaskBatches {
    const { configuration, layout, seed, task, processes } = this.#options;
    const { globalBatchSize, microBatchSize } = configuration;
    return taskBatches({
      dataset: task.train,
      seed,
      consumedSamples,
      globalBatchSize,
      microBatchSize,
      isCut: this.#isCut,
      dataParallelRank: processes.coordinates.dp,
      dataParallelSize: layout.parallel.dataParallelSize,
    });
  }

  #trainer(options: {
    readonly batches: TaskBatches;
    readonly stepsPerEpoch: number;
    readonly progress: TrainingProgress | undefined;
  }): Trainer<TaskTokenBatch> {
    const { configuration, layout, model, sequenceLength, task } = this.#options;
    const { optimizer, globalBatchSize, microBatchSize, epochs } = configuration;
    const { parallel } = layout;
    const trainIterations = epochs * options.stepsPerEpoch;
    const warmupSteps = optimizer.warmupFraction * trainIterations;
    const schedule = inWordsOfFlags(
      () =>
        new LearningRateSchedule({
          maxLearningRate: optimizer.learningRate,
          minLearningRate: optimizer.minLearningRate,
          decayStyle: optimizer.decayStyle,
          // part of a step would make the first one, whose rate is 0, all of warm-up
          warmupSteps: warmupSteps < 1 ? 0 : warmupSteps,
          decaySteps: trainIterations,
        }),
    );
    return this.#assembled.trainer({
      batches: options.batches,
      losses: [{ name: 'task_loss', per: 'sample', count: ({ batchSize }) => batchSize }],
      learningRate: ({ numUpdates }) => schedule.at(numUpdates),
      microBatches: new NumMicroBatches({
        globalBatchSize,
        microBatchSize,
        dataParallelSize: parallel.dataParallelSize,
      }),
      device: parallel.device,
      sequenceLength,
      flopsPerSample: modelFlops({
        batchSize: task.train.description.numChoices,
        sequenceLength,
        // a head of a few outputs counts for nothing
        ...bertMatmuls(model),
      }),
      trainIterations,
      ...(options.progress === undefined ? {} : { progress: options.progress }),
    });
  }

  async #evaluateEpoch({ iteration, stepsPerEpoch }: { iteration: number; stepsPerEpoch: number }) {
    const { task, processes, onEpoch } = this.#options;
    const epoch = iteration / stepsPerEpoch;
    const results: Record<string, SetResult> = {};
    const files: string[] = [];
    for (const set of task.valid) {
      const { loss, predictions } = await this.#evaluate(set);
      results[set.name] = { loss: loss!, ...set.metrics(predictions) };
      if (processes.isFirst) files.push(...this.#write(set, predictions));
    }
    const result = { epoch, iteration, sets: results };
    this.#epochs = [...this.#epochs.filter((one) => one.epoch < epoch), result];
    this.#predictions = files;
    if (processes.isFirst && this.#directory !== undefined) {
      const { seed } = this.#options;
      writeResult(resultPath(this.#directory), {
        seed,
        epochs: this.#epochs,
        predictions: files,
        isDone: false,
      });
    }
    onEpoch(result);
    const losses = Object.values(results).map(({ loss }) => loss);
    return { loss: losses.reduce((sum, loss) => sum + loss, 0) / losses.length, tokenLosses: [] };
  }

  async #predictTests(): Promise<void> {
    const { task, processes } = this.#options;
    for (const set of task.test) {
      const { predictions } = await this.#evaluate(set);
      if (processes.isFirst) this.#predictions = [...this.#predictions, ...this.#write(set, predictions)];
    }
  }

  #evaluate(set: TaskSet) {
    const { configuration, layout, processes } = this.#options;
    const { pipeline, placement } = this.#assembled.part;
    return evaluateTaskSet({
      set,
      processes,
      pipeline,
      microBatchSize: configuration.microBatchSize,
      // as many at a time as in a step, which is a number that the schedule fits
      numMicroBatches: placement.length === 1 ? 1 : layout.numMicroBatches,
      isCut: this.#isCut,
    });
  }

  #write(set: TaskSet, predictions: Parameters<TaskSet['write']>[0]): readonly string[] {
    if (this.#directory === undefined) return [];
    const directory = join(this.#directory, 'predictions');
    mkdirSync(directory, { recursive: true });
    return set.write(predictions, directory);
  }

  /** What checkpoints save of the run; the tokenizer's files are copied next to them. */
  async #savedConfiguration(directory: string): Promise<JsonObject> {
    const { model, start, configuration } = this.#options;
    const tokenizer = await saveTokenizer(directory, start.tokenizer);
    const saved = { [savedModelKeys.bert]: model, fineTuning: resumable(configuration), ...tokenizer };
    // what is undefined JSON leaves out
    return JSON.parse(JSON.stringify(saved)) as JsonObject;
  }
}

/** Nothing to load but what a restart finds. */
const noCheckpoint = {
  finetune: false,
  loadOptimizer: true,
  loadRng: true,
} as const;

/** The folder with the checkpoints and results of a seed. */
export const seedDirectory = (save: string, seed: number): string => join(save, `seed-${seed}`);

/** The file with the results of a seed. */
export const resultPath = (directory: string): string => join(directory, 'result.json');

/** Steps of an epoch: whole global batches. */
export function stepsOfEpoch(
  { length }: Pick<TaskDataset, 'length'>,
  { globalBatchSize }: Pick<FineTuningConfiguration, 'globalBatchSize'>,
): number {
  return Math.floor(length / globalBatchSize);
}

/**
 * What must stay the same for a resumed run to be the same run: all but layout, recomputation, places and
 * reports. Sets that are scored are part of it, since the report compares all seeds on them.
 */
export function resumable(configuration: FineTuningConfiguration) {
  const { task, data, start, sequenceLength, spans, epochs, globalBatchSize, microBatchSize } = configuration;
  const { optimizer, dropout, precision } = configuration;
  return {
    ...{
      task,
      data: { train: data.train, valid: data.valid },
      start,
      sequenceLength,
      spans,
      epochs,
      globalBatchSize,
    },
    microBatchSize,
    optimizer,
    dropout,
    precision,
  };
}

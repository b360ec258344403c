import type { Checkpoint, JsonObject } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import {
  checkHuggingFaceArchitecture,
  type PretrainingConfiguration,
  type SavedConfiguration,
  saveConfiguration,
  scheduleOfStep,
} from '@mtl/configuration';
import type { NumberedBatch, SplitDatasets, Tokenizer } from '@mtl/data';
import { ConfigurationError, UsageError } from '@mtl/errors';
import type { HuggingFaceOrigin, TransformerConfiguration } from '@mtl/models';
import type { ModelOptimizer } from '@mtl/optimizer';
import {
  type ConsoleStream,
  EarlyStopping,
  modelFlops,
  type RunOutcome,
  type StepMetrics,
  StepRerun,
  type SummaryRow,
  stepRecording,
  type Trainer,
  type TrainerExtension,
  type TrainingReporter,
  type TrainingResult,
} from '@mtl/trainer';
import { modelFlopsText, nameOfTotal, resultOf } from '@mtl/trainer/internal';
import { SaveDirectory } from '../checkpoints/save-directory.js';
import { dataOfConversations } from '../conversations/data-of-conversations.js';
import type { OpenedConversations } from '../conversations/open-conversations.js';
import { openTrainingData } from '../data/open-training-data.js';
import { dtypeOfPrecision } from '../models/dtype-of-precision.js';
import { flopsShapeOf } from '../models/flops-shape-of.js';
import { loraOf } from '../models/lora-of.js';
import type { ModelChunk } from '../models/model-chunk.js';
import type { AnyModelRecipe } from '../models/model-recipe.js';
import type { ModelSample } from '../models/model-sample.js';
import { recipeOf } from '../models/recipe-of.js';
import type { StageBatches } from '../models/stage-batches.js';
import { datasetFingerprints } from '../runs/dataset-fingerprint.js';
import { RunLog } from '../runs/run-log.js';
import { taskDataFingerprint } from '../runs/task-data-fingerprint.js';
import type { ThreadChoice } from '../threads/choose-threads.js';
import { setThreadsOfRank } from '../threads/set-threads-of-rank.js';
import { threadsOfTraining } from '../threads/threads-of-training.js';
import { AssembledTraining } from './assembled-training.js';
import { checkSaveForHuggingFace } from './check-save-for-hugging-face.js';
import { descriptionOfRun } from './description-of-run.js';
import { goingOnFrom } from './going-on-from.js';
import { hostNames } from './host-names.js';
import { newTrainer } from './new-trainer.js';
import { openAdapters } from './open-adapters.js';
import { openDeviceOfRank } from './open-device-of-rank.js';
import { outcomeOf } from './outcome-of.js';
import { type RankWatchTimes, rankWatchOf } from './rank-watch-of.js';
import type { Job } from './read-job.js';
import { resolvedFlags } from './resolved-flags.js';
import { type ResumedConfiguration, resumedConfiguration } from './resumed-configuration.js';
import { sampleAtEvaluation } from './sample-at-evaluation.js';
import { samplerOf, trainingSamplerOf } from './samplers-of.js';
import { spikeGuardOf } from './spike-guard-of.js';
import { timeMatmulsOfRun } from './time-matmuls-of-run.js';
import { openHuggingFace, trainingModel } from './training-model.js';
import { TrainingProcesses } from './training-processes.js';
import { trainingProfiler } from './training-profiler.js';
import { openTrainingReporters, silentReporters, type TrainingReporters } from './training-reporters.js';
import { writeExports } from './write-exports.js';

export interface BuildTrainingOptions {
  readonly configuration: PretrainingConfiguration;
  /** Where the bundled corpus is prepared. */
  readonly corpusDirectory: string;
  /** Progress and messages, which rank 0 writes. Default: standard output. */
  readonly stream?: ConsoleStream;
  /** The processes of the training run, this one among them. Default: this process alone. */
  readonly world?: World | undefined;
  /** Whether `close` closes the world, and an error of a step aborts it. Default: its owner does. */
  readonly closesWorld?: boolean;
  /** This process among those on its host. Default: alone there. */
  readonly local?: { readonly rank: number; readonly size: number };
  /**
   * The job of the run. One that its launcher has restarted continues with what it has saved into --save.
   * Default: a job of its own.
   */
  readonly job?: Job;
  /** The command that started the run, for remedies that print it with other flags. */
  readonly commandLine?: string;
  /** What `openConversations` read, where the configuration has conversations. */
  readonly conversations?: OpenedConversations | undefined;
  /** What joins the training loop next to the run's own extensions, the same on all ranks. */
  readonly extensions?: readonly TrainerExtension[] | undefined;
  /** How often ranks are compared to find slow ones: more often in tests. */
  readonly rankWatchTimes?: RankWatchTimes | undefined;
}

/** What else is told of the steps of a run, on this rank. */
export interface RunTrainingReporters {
  readonly reporters?: readonly TrainingReporter[];
}

/** A rank's part of whichever model is trained. */
type Assembled = AssembledTraining<NumberedBatch, ModelChunk<NumberedBatch>>;
type Part = Assembled['part'];

/** What a training run has before its model is built. */
interface TrainingSurroundings {
  readonly processes: TrainingProcesses;
  readonly saveDirectory: SaveDirectory;
  readonly onMessage: (text: string) => void;
  readonly job: Job;
}

/** Of a process that no launcher restarts. */
const aloneJob: Job = { id: undefined, restartCount: 0 };

/** What a training run is made of, once everything is open. */
interface TrainingParts {
  readonly configuration: PretrainingConfiguration;
  readonly processes: TrainingProcesses;
  readonly dataPath: readonly string[];
  readonly model: TransformerConfiguration;
  readonly assembled: Assembled;
  readonly tokenizer: Tokenizer;
  readonly trainer: Trainer<NumberedBatch>;
  readonly reporters: TrainingReporters;
  readonly threads: ThreadChoice;
  readonly batches: StageBatches<NumberedBatch>;
  readonly datasets: SplitDatasets<NumberedBatch>;
  readonly saveDirectory: SaveDirectory;
  /** Of rank 0, where the run has a folder. */
  readonly log: RunLog | undefined;
  /** What the model brought along from a Hugging Face directory, through checkpoints too. */
  readonly origin: HuggingFaceOrigin | undefined;
  /** A checkpoint with everything that training goes on from. */
  readonly resumedFrom: string | undefined;
  /** The world that the run closes, or aborts after an error. */
  readonly ownWorld: World | undefined;
}

/**
 * A training run of the model that a configuration describes, built and ready to run: what the apps and tests
 * share. With several processes each builds one and calls its methods; rank 0 reports.
 *
 * ```ts
 * for await (const { iteration, loss } of training) console.log(iteration, loss);
 * ```
 */
export class Training implements AsyncIterable<StepMetrics>, AsyncDisposable {
  readonly #parts: TrainingParts;
  readonly #recipe: AnyModelRecipe;
  #outcome: RunOutcome = 'failed';
  #hasBegun = false;

  private constructor(parts: TrainingParts) {
    this.#parts = parts;
    this.#recipe = recipeOf(parts.configuration);
  }

  /** Opens data, builds model and optimizer, and loads what --load names. */
  static async build(options: BuildTrainingOptions): Promise<Training> {
    const { configuration, world, stream = process.stdout, job = aloneJob } = options;
    const { training, parallel, checkpoint } = configuration;
    checkSaveForHuggingFace({ worldSize: parallel.worldSize, ...checkpoint });
    openDeviceOfRank(parallel.device, { localRank: options.local?.rank ?? 0, allowTf32: parallel.allowTf32 });
    const { placement } = scheduleOfStep(parallel, training.numMicroBatches);
    const processes = new TrainingProcesses({ world, parallel, ends: [placement[0]!, placement.at(-1)!] });
    const onMessage = (text: string): void => {
      if (processes.isFirst) stream.write(`${text}\n`);
    };
    const saveDirectory = new SaveDirectory({ checkpoint, job, processes, onMessage });
    try {
      await saveDirectory.ownExisting();
      return await Training.#open(options, { processes, saveDirectory, onMessage, job });
    } catch (error) {
      await saveDirectory.release();
      throw error;
    }
  }

  static async #open(
    options: BuildTrainingOptions,
    { processes, saveDirectory, onMessage, job }: TrainingSurroundings,
  ): Promise<Training> {
    const { configuration, corpusDirectory, world, stream = process.stdout } = options;
    const { training, parallel, checkpoint } = configuration;
    const { save } = checkpoint;
    const recipe = recipeOf(configuration);
    const local = options.local ?? { rank: 0, size: 1 };
    setThreadsOfRank(parallel.threads, { localSize: local.size });
    const huggingFace = await openHuggingFace(configuration);
    const { datasets, train, tokenizer, dataPath } =
      configuration.data.conversations === undefined
        ? await dataOfRank(configuration, {
            corpusDirectory,
            processes,
            onMessage,
            isFirstOnHost: local.rank === 0,
          })
        : dataOfConversations(configuration, options.conversations);
    for (const line of options.conversations?.lines ?? []) onMessage(line);
    const model = trainingModel(configuration, { tokenizer, huggingFace });
    if (checkpoint.saveHuggingFace !== undefined)
      checkHuggingFaceArchitecture({ kind: configuration.kind, model });
    await timeMatmulsOfRun(configuration, { model, processes, onMessage, variables: process.env });
    const dtype = dtypeOfPrecision[training.precision];
    const profiler = trainingProfiler(configuration, { world, processes, onMessage });
    const assembled: Assembled = new AssembledTraining({
      configuration,
      model,
      processes,
      dtype,
      recorder: profiler,
      onMessage,
      work: recipe.embeddingAndHeadCost(configuration, model),
      buildStages: recipe.buildStages,
      lossScale: configuration.optimizer.lossScale,
    });
    const { part, optimizer } = assembled;
    let origin = huggingFace?.origin;
    let resumed:
      | (ResumedConfiguration & { readonly checkpoint: Checkpoint; readonly withOptimizer: boolean })
      | undefined;
    const progress = await assembled.load({
      checkpoint,
      huggingFace,
      onMessage,
      model: { kind: configuration.kind, model },
      adapters: await openAdapters(configuration, model),
      parameterNames: recipe.parameterNames(model, { lora: loraOf(configuration, model) }),
      restartFrom: job.restartCount > 0 && save !== undefined ? { directory: save, job } : undefined,
      onOpen: ({ state }) => {
        origin = ((state.configuration ?? {}) as Partial<SavedConfiguration>).huggingFace;
      },
      onResume: (checkpoint, taken) => {
        const compared = { configuration, checkpoint, commandLine: options.commandLine };
        resumed = { checkpoint, ...taken, ...resumedConfiguration({ ...compared, ...taken }) };
      },
    });
    const inForce = goingOnFrom(resumed?.configuration ?? configuration, progress);
    optimizer.weightDecay = inForce.optimizer.weightDecay;
    for (const note of resumed?.notes ?? []) onMessage(note);
    const numParameters = recipe.numParameters(model);
    const flopsShape = flopsShapeOf(configuration, model);
    const { numAdapterParameters: numAdapted } = flopsShape;
    // weights in float32, and both moments of AdamW or at least the momentum of Muon for what is trained
    const numTrained = numAdapted ?? numParameters;
    const numBytes = 4 * numParameters + (inForce.optimizer.muon === undefined ? 8 : 4) * numTrained;
    await saveDirectory.prepare({ numBytes });
    const iteration = progress?.iteration ?? 0;
    const described = { iteration, numParameters, numAdapted, tokenizer, train };
    for (const line of descriptionOfRun(inForce, described)) onMessage(line);
    const threads = await threadsOfTraining({
      configuration,
      flopsPerSample: modelFlops(flopsShape),
      localSize: local.size,
      resumed: resumed?.checkpoint,
      onMessage,
    });
    const flopsFormula = modelFlopsText(flopsShape);
    const start = {
      directory: save,
      configuration: {
        ...configuration,
        training: inForce.training,
        resolved: resolvedFlags({ configuration: inForce, model, tokenizer }),
      },
      datasets: () =>
        configuration.data.conversations?.trainData.map(taskDataFingerprint) ?? datasetFingerprints(dataPath),
      threads,
      iteration,
      onMessage,
    };
    const log = processes.isFirst ? RunLog.start(start) : undefined;
    const reporting = { configuration: inForce, stream, flopsFormula, resume: progress, log };
    const reporters = processes.isFirst
      ? await openTrainingReporters(reporting)
      : silentReporters(flopsFormula);
    const sampler = trainingSamplerOf(configuration, {
      processes,
      consumedSamples: progress?.consumedSamples ?? 0,
    });
    const batches = recipe.batches({
      dataset: train,
      needsTokens: part.pipeline.isFirst || part.pipeline.isLast,
      sampler,
    });
    const losses = recipe.losses(model);
    const hosts = hostNames(processes.groups.world);
    const { rerunMode } = inForce.spikes;
    const trainer = newTrainer({
      configuration: inForce,
      assembled,
      batches,
      progress,
      losses,
      flopsPerSample: modelFlops(flopsShape),
      // in the order in which checkpoints have their states
      extensions: [
        earlyStoppingOf(inForce),
        spikeGuardOf(inForce, { losses, dataset: train, sampler, reports: processes.isFirst }),
        rerunMode && new StepRerun({ mode: rerunMode, hosts, nameOfTotal: nameOfTotal(losses) }),
        rankWatchOf(inForce, { processes, hosts, world, times: options.rankWatchTimes }),
        profiler && stepRecording(profiler),
        ...(options.extensions ?? []),
      ],
    });
    if (resumed !== undefined) trainer.extensions.restore(resumed.checkpoint);
    return new Training({
      configuration: inForce,
      processes,
      dataPath,
      model,
      assembled,
      tokenizer,
      trainer,
      reporters,
      threads,
      batches,
      datasets,
      saveDirectory,
      log,
      origin,
      resumedFrom: resumed?.withOptimizer === true ? resumed.checkpoint.path : undefined,
      ownWorld: options.closesWorld === true ? world : undefined,
    });
  }

  /** What the run was configured with; of one that goes on, with what its checkpoint keeps. */
  get configuration(): PretrainingConfiguration {
    return this.#parts.configuration;
  }

  /** The architecture. */
  get model(): TransformerConfiguration {
    return this.#parts.model;
  }

  get tokenizer(): Tokenizer {
    return this.#parts.tokenizer;
  }

  get trainer(): Trainer<NumberedBatch> {
    return this.#parts.trainer;
  }

  get reporters(): TrainingReporters {
    return this.#parts.reporters;
  }

  get processes(): TrainingProcesses {
    return this.#parts.processes;
  }

  /** The threads of this rank's kernels, the same from its first step to its last. */
  get threads(): ThreadChoice {
    return this.#parts.threads;
  }

  /** This rank's part of the model. */
  get part(): Part {
    return this.#parts.assembled.part;
  }

  get optimizer(): ModelOptimizer {
    return this.#parts.assembled.optimizer;
  }

  /**
   * Trains to the end, or until a signal; saves and evaluates as the configuration asks. Yields each step
   * when what follows it is done, and returns how the run ended; its final state is saved then. All ranks go
   * through all steps, or leave after the same one.
   *
   * @throws UsageError `MTL_RUN_OVER` where the steps have been run, or left, before
   */
  async *steps({
    reporters = [],
  }: RunTrainingReporters = {}): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    if (this.#hasBegun) {
      throw new UsageError('MTL_RUN_OVER', 'the steps of this training run have begun before', {
        remedy: 'build another one, which goes on from what was saved (checkpoint.load)',
      });
    }
    this.#hasBegun = true;
    // where a consumer leaves the loop
    let end: Pick<TrainingResult, 'reason'> | { readonly reason: 'left' } | undefined = { reason: 'left' };
    try {
      const result = yield* this.#steps([...this.reporters.all, ...reporters]);
      this.#outcome = outcomeOf(result.reason);
      end = result;
      return result;
    } catch (error) {
      end = undefined;
      this.#parts.log?.fail(error, this.trainer.progress);
      // the other processes end with this error instead of waiting for this one
      this.#parts.ownWorld?.abort(error as Error);
      throw error;
    } finally {
      if (end !== undefined) {
        const { iteration } = this.trainer.progress;
        this.#parts.log?.end({ reason: end.reason, iteration });
      }
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    return this.steps();
  }

  /** Goes through all `steps`, and returns how the run ended. */
  async run(options: RunTrainingReporters = {}): Promise<TrainingResult> {
    return await resultOf(this.steps(options));
  }

  async *#steps(
    reporters: readonly TrainingReporter[],
  ): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    const { checkpoint, training } = this.#parts.configuration;
    const { save, saveInterval, keepLast, asyncSave } = checkpoint;
    return yield* this.#parts.assembled.steps({
      trainer: this.trainer,
      reporters,
      exitInterval: training.exitInterval,
      deadlineMs: (training.exitDurationMinutes ?? Number.POSITIVE_INFINITY) * 60_000,
      onMessage: (text) => this.#report(text),
      save: {
        directory: save,
        owned: this.#parts.saveDirectory.owned,
        interval: saveInterval,
        keepLast,
        inBackground: asyncSave,
        tokenizer: this.tokenizer,
        configurationFor: (directory) => this.#savedConfiguration(directory),
      },
      evaluation: this.#evaluation(),
      resumedFrom: this.#parts.resumedFrom,
      onEnd: async (result) => {
        await this.processes.together(async () => {
          if (!this.processes.isFirst) return;
          const { checkpointPath, isUnchanged } = result;
          if (isUnchanged === true) return;
          await writeExports({
            ...this.#parts,
            checkpointPath,
            heldWeights: () => this.#parts.assembled.weights(),
            onMessage: (text) => this.#report(text),
          });
        });
        return result;
      },
    });
  }

  #report(text: string): void {
    for (const reporter of this.reporters.all) reporter.message?.(text);
  }

  /** Ends reports, as far as services take them within seconds; what the summary of the run adds of them. */
  async endReports(): Promise<readonly SummaryRow[]> {
    return await this.reporters.close(this.#outcome);
  }

  async close(): Promise<void> {
    await this.endReports();
    await this.#parts.batches.close();
    this.#parts.assembled.dispose();
    await this.#parts.saveDirectory.release();
    this.#parts.ownWorld?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * What the model has learnt, as text for the end of a run, and for samples.jsonl in the run folder. All
   * ranks call it; those of the first replica know.
   */
  async show(): Promise<string | undefined> {
    const sample = await this.#shown({ isBrief: false });
    if (sample !== undefined)
      this.#parts.log?.sample({ iteration: this.trainer.progress.iteration, ...sample });
    return sample?.text;
  }

  async #shown({ isBrief }: { readonly isBrief: boolean }): Promise<ModelSample | undefined> {
    // data-parallel ranks hold the same model: the first of them is enough
    if (this.processes.coordinates.dp !== 0) return undefined;
    return await this.#recipe.show({
      configuration: this.#parts.configuration,
      part: this.part,
      tokenizer: this.tokenizer,
      datasets: this.#parts.datasets,
      pipelineGroup: this.processes.groups.pp,
      isBrief,
    });
  }

  /** A short sample of the model as it is; at the end there is a longer one. All ranks call it. */
  async #sampleAtEvaluation(): Promise<void> {
    const { isDone, progress } = this.trainer;
    if (isDone || this.#parts.configuration.checkpoint.save === undefined) return;
    await sampleAtEvaluation({
      iteration: progress.iteration,
      show: () => this.#shown({ isBrief: true }),
      log: this.#parts.log,
      onMessage: (text) => this.#report(text),
    });
  }

  /** What checkpoints save of the run; the tokenizer's files are copied next to them. */
  async #savedConfiguration(directory: string): Promise<JsonObject> {
    return await saveConfiguration({
      directory,
      configuration: this.#parts.configuration,
      model: this.model,
      tokenizer: this.tokenizer,
      threads: this.threads.count,
      data: { dataPath: this.#parts.dataPath, split: this.#parts.configuration.data.split },
      huggingFace: this.#parts.origin,
    });
  }

  #evaluation() {
    const dataset = this.#parts.datasets.valid;
    if (dataset === undefined) return undefined;
    const { evalInterval, evalIterations, globalBatchSize, microBatchSize } =
      this.#parts.configuration.training;
    const { dataParallelSize } = this.#parts.configuration.parallel;
    const { pipeline } = this.part;
    const needsTokens = pipeline.isFirst || pipeline.isLast;
    const sampler = samplerOf(this.#parts.configuration, { processes: this.processes });
    return {
      interval: evalInterval,
      numMicroBatches: (evalIterations * globalBatchSize) / (microBatchSize * dataParallelSize),
      open: () => this.#recipe.batches({ dataset, sampler, needsTokens, thread: 'main' }),
      ...(this.#parts.configuration.logging.samplesAtEvaluations
        ? { afterwards: () => this.#sampleAtEvaluation() }
        : {}),
    };
  }
}

function earlyStoppingOf({ data }: PretrainingConfiguration): EarlyStopping | undefined {
  const patience = data.conversations?.patience;
  return patience === undefined ? undefined : new EarlyStopping({ patience });
}

interface DataOfRankOptions {
  readonly corpusDirectory: string;
  readonly processes: TrainingProcesses;
  readonly isFirstOnHost: boolean;
  readonly onMessage: (text: string) => void;
}

/**
 * The data that the flags name, prepared by the first rank of a host.
 * @throws ConfigurationError MTL_SPLIT
 */
async function dataOfRank(
  configuration: PretrainingConfiguration,
  { corpusDirectory, processes, isFirstOnHost, onMessage }: DataOfRankOptions,
) {
  const { split } = configuration.data;
  const data = await processes.prepare(
    () => openTrainingData(configuration, { corpusDirectory, onMessage }),
    { isFirstOnHost },
  );
  const { train } = data.datasets;
  if (train !== undefined) return { ...data, train };
  throw new ConfigurationError('MTL_SPLIT', `--split ${split} leaves nothing to train on`, {
    expected: 'a first number above 0, such as 969,30,1',
  });
}

import { Checkpoint, type LogicalTensor } from '@mtl/checkpoint';
import { type PretrainingConfiguration, saveConfiguration } from '@mtl/configuration';
import { configurationOption } from '@mtl/configuration/internal';
import { checkHuggingFaceArchitecture } from '@mtl/configuration/saved';
import { optimizerSharing } from '@mtl/configuration/strategies';
import { MtlError } from '@mtl/errors';
import {
  checkOptions,
  groupOption,
  numberOption,
  type OptionChecks,
  objectOption,
  required,
  switchOption,
  textOption,
} from '@mtl/errors/options';
import type { HuggingFaceOrigin } from '@mtl/formats';
import { isCopySpreadOverShares, type NumberedBatch } from '@mtl/layout';
import type { TransformerConfiguration } from '@mtl/models';
import { LossScaler, type ModelOptimizer } from '@mtl/optimizer';
import type { StepListener } from '@mtl/pipeline';
import type { Tokenizer } from '@mtl/tokenizers';
import { type Trainer, weightTensors } from '@mtl/trainer';
import { closeAfterError } from '../close-all.js';
import { extensionsOption, streamOption } from '../option-checks.js';
import { buildStages, createOptimizer, type RankStages } from '../parts/models/build-stages.js';
import { findRecipe } from '../parts/models/find-recipe.js';
import { exportsOfRun } from '../parts/models/hugging-face-targets.js';
import type { StageBatches } from '../parts/models/stage-batches.js';
import { trainingModel } from '../parts/models/training-model.js';
import { jobOption, localOption, worldOption } from '../parts/ranks/option-checks.js';
import type { ModelSample } from '../parts/samples/sample-continuation.js';
import { savedWeights } from '../saved/checkpoints/saved-weights.js';
import { exportedTokenizerNotice } from '../saved/tokenizers/exported-tokenizer-notice.js';
import { exportedTokenizerFiles } from '../saved/tokenizers/hugging-face-tokenizers.js';
import { type BegunReports, beginReports } from './begin-reports.js';
import { createTrainer } from './create-trainer.js';
import { loadStart, type StartOfRun } from './load-start.js';
import { timeMatmulsOfRun } from './matmuls/choose-matmuls.js';
import { closeDatasets, describeSampler, type OpenedData, openBatches, openData } from './open-data.js';
import { type OpenedRun, type OpenTrainingOptions, openRun } from './open-run.js';
import type { RunLog } from './run-log.js';
import { planningOption } from './run-planning.js';
import { Training } from './training.js';
import { trainingProfiler } from './training-profiler.js';
import type { TrainingReporters } from './training-reporters.js';
import { checkMemoryOfRun } from './webassembly-kernels.js';

/** A training run of a model on documents or conversations. */
export type Pretraining = Training<NumberedBatch, PretrainingConfiguration, TrainingReporters>;

/** The components from which a training run on documents or conversations is made. */
interface PretrainingComponents {
  readonly data: OpenedData;
  readonly model: TransformerConfiguration;
  /** This rank's part of the model. */
  readonly part: RankStages;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly start: StartOfRun;
  readonly reports: BegunReports;
  /** This rank's micro-batches. */
  readonly batches: StageBatches<NumberedBatch>;
  readonly trainer: Trainer<NumberedBatch>;
}

const checks: OptionChecks<OpenTrainingOptions> = {
  configuration: required(configurationOption),
  corpusDirectory: required(textOption),
  stream: streamOption,
  world: worldOption,
  closesWorld: switchOption,
  local: localOption,
  job: jobOption,
  commandLine: textOption,
  conversations: objectOption('conversations that were read'),
  extensions: extensionsOption,
  planning: planningOption,
  rankWatchTimes: groupOption(
    { leastIntervalMs: numberOption, leastReportMs: numberOption },
    { of: 'the watch of ranks' },
  ),
};

/**
 * Opens the training run that a configuration describes: data, model, optimizer, loaded checkpoint and
 * reports. Each process of the job must call this function.
 *
 * @throws ConfigurationError MTL_OPTION; the errors of opening data, model, optimizer, checkpoint or reports
 */
export async function openTraining(options: OpenTrainingOptions): Promise<Pretraining> {
  checkOptions(options, { of: 'openTraining', checks });
  const run = await openRun(options);
  try {
    return await trainingOfRun(run);
  } catch (error) {
    await run.saveDirectory.release();
    throw error;
  }
}

/**
 * Opens the training run of processes that have joined. The source code of apps/gpt-train shows the same
 * steps.
 */
export async function trainingOfRun(run: OpenedRun): Promise<Pretraining> {
  const opened: (() => unknown)[] = [];
  try {
    const data = await openData(run);
    opened.push(() => closeDatasets(data.datasets));
    const model = await describeModel(run, { data });
    const profiler = trainingProfiler(run);
    const part = buildStages(run, { model, recorder: profiler });
    opened.push(() => part.dispose());
    const optimizer = createOptimizer(run, { part });
    opened.push(() => optimizer.dispose());
    return await openLoop(run, { data, model, part, optimizer, profiler });
  } catch (error) {
    await closeAfterError(opened);
    throw error;
  }
}

/**
 * Opens the training loop for stages and an optimizer that the caller has built. Loads the weights or the
 * checkpoint from which the run starts, opens reports, and adds batches, evaluations, checkpoints and
 * exports. All ranks must call this function.
 *
 * @param parts.profiler listens to the steps of --profile-steps; the stages record into it
 * @returns the run, ready for its steps; closing the run also disposes of the stages and the optimizer
 * @throws the errors of `findStart`, `beginReports`, and an error for extensions with the same name
 */
export async function openLoop(
  run: OpenedRun,
  parts: Pick<PretrainingComponents, 'data' | 'model' | 'part' | 'optimizer'> & {
    readonly profiler: StepListener | undefined;
  },
): Promise<Pretraining> {
  const { data, model, part, optimizer, profiler } = parts;
  const lossScaler = new LossScaler(run.configuration.optimizer.lossScale);
  const start = await loadStart(run, { model, optimizer, lossScaler, data });
  const reports = await beginReports(run, { start, model, data });
  const opened: (() => unknown)[] = [() => reports.reporters.close('failed')];
  try {
    const batches = openBatches(run, { data, part, start });
    opened.push(() => batches.close());
    const all = { data, model, part, optimizer, lossScaler, start, reports, batches };
    return pretraining(run, { ...all, trainer: createTrainer(run, { ...all, profiler }) });
  } catch (error) {
    reports.log?.fail(error, { iteration: start.progress?.iteration ?? 0 });
    await closeAfterError(opened);
    throw error;
  }
}

/** Returns the run with its evaluations, checkpoints, samples and exports, ready to train. */
function pretraining(run: OpenedRun, parts: PretrainingComponents): Pretraining {
  const { processes, saveDirectory, world, closesWorld } = run;
  const { data, model, part, optimizer, start, reports, trainer } = parts;
  const { configuration, resumed, resumedFrom, origin } = start;
  const { checkpoint, training } = configuration;
  const { tokenizer, datasets, dataPath } = data;
  const { log, reporters, threads, matmuls } = reports;
  const onMessage = (text: string): void => {
    for (const reporter of reporters.all) reporter.message?.(text);
  };
  const isFirstReplica = processes.shareOfBatch.index === 0;
  // all data-parallel replicas have the same model, so only the first replica generates a sample, unless
  // replicas need experts or slices of parameters from other ranks
  const isSpread =
    isCopySpreadOverShares(processes.mesh) || optimizerSharing(configuration.parallel).store.releasesValues;
  const show = async ({ isBrief }: { readonly isBrief: boolean }): Promise<ModelSample | undefined> => {
    if (!isFirstReplica && !isSpread) return undefined;
    const sample = await findRecipe(configuration).show({
      configuration,
      part,
      tokenizer,
      datasets,
      isBrief,
      pipelineGroup: processes.groups.pp,
    });
    return isFirstReplica ? sample : undefined;
  };
  /**
   * Prints a short sample of the current model after an evaluation. A longer sample is printed at the end of
   * the run.
   */
  const afterwards = async (): Promise<void> => {
    const { isDone, progress } = trainer;
    if (isDone || checkpoint.save === undefined) return;
    const { iteration } = progress;
    await sampleAtEvaluation({ iteration, show: () => show({ isBrief: true }), log, onMessage });
  };
  return new Training({
    ...parts,
    configuration,
    processes,
    tokenizer,
    threads,
    log,
    reporters,
    show,
    closeData: () => closeDatasets(datasets),
    resumedFrom,
    exitInterval: training.exitInterval,
    deadlineMs: (training.exitDurationMinutes ?? Number.POSITIVE_INFINITY) * 60_000,
    save: {
      directory: checkpoint.save,
      owner: saveDirectory,
      loaded: resumed,
      isStepChosen: checkpoint.checkpointStep !== undefined,
      interval: checkpoint.saveInterval,
      keepLast: checkpoint.keepLast,
      inBackground: checkpoint.asyncSave,
      configurationFor: (directory) =>
        saveConfiguration({
          directory,
          configuration,
          model,
          tokenizer,
          threads: threads.count,
          matmuls,
          data: { dataPath, split: configuration.data.split },
          huggingFace: origin,
        }),
    },
    evaluation: openEvaluation(run, { ...parts, afterwards }),
    onEnd: async ({ checkpointPath, isUnchanged }) =>
      await processes.together(async () => {
        if (!processes.isFirst || isUnchanged === true) return;
        const heldWeights = () => weightTensors(optimizer);
        await writeExports({
          configuration,
          model,
          tokenizer,
          origin,
          checkpointPath,
          heldWeights,
          onMessage,
        });
      }),
    ownWorld: closesWorld === true ? world : undefined,
  });
}

/** Returns the run's evaluation; undefined without held-out data. */
function openEvaluation(
  { processes }: OpenedRun,
  {
    start: { configuration },
    data,
    part: { pipeline },
    afterwards,
  }: Pick<PretrainingComponents, 'start' | 'data' | 'part'> & { readonly afterwards: () => Promise<void> },
) {
  const dataset = data.datasets.valid;
  if (dataset === undefined) return undefined;
  const { evalInterval, evalIterations, globalBatchSize, microBatchSize } = configuration.training;
  const needsTokens = pipeline.isFirst || pipeline.isLast;
  const sampler = describeSampler(configuration, { processes });
  return {
    interval: evalInterval,
    numMicroBatches: (evalIterations * globalBatchSize) / (microBatchSize * processes.shareOfBatch.count),
    open: () => findRecipe(configuration).batches({ dataset, sampler, needsTokens, thread: 'main' }),
    ...(configuration.logging.samplesAtEvaluations ? { afterwards } : {}),
  };
}

/**
 * Returns the architecture that a run trains, after checking that the requested export formats support it and
 * that, with the WebAssembly kernels, it fits in their memory. With --time-matmuls on device `cuda`, also
 * times the run's matmuls. All ranks must call this function.
 *
 * @throws the errors of `trainingModel`, `checkMemoryOfRun` and `timeMatmulsOfRun`; ConfigurationError
 *   MTL_HUGGING_FACE_*
 */
export async function describeModel(
  { configuration, huggingFace, processes, planning, onMessage }: OpenedRun,
  { data: { tokenizer } }: { readonly data: { readonly tokenizer: Pick<Tokenizer, 'vocabularySize'> } },
): Promise<TransformerConfiguration> {
  const model = trainingModel(configuration, { tokenizer, huggingFace });
  if (configuration.checkpoint.saveHuggingFace !== undefined)
    checkHuggingFaceArchitecture({ kind: configuration.kind, model });
  await checkMemoryOfRun(configuration, { model, planning });
  if (configuration.parallel.device === 'cuda')
    await timeMatmulsOfRun(configuration, { model, processes, planning, onMessage, variables: process.env });
  return model;
}

interface SampleAtEvaluationOptions {
  readonly iteration: number;
  /** Generates a sample of the model. All ranks of a replica get the same sample, or the same error. */
  readonly show: () => Promise<ModelSample | undefined>;
  /** The run's log; defined only on rank 0. */
  readonly log: RunLog | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * Generates a sample of the model, and adds it to samples.jsonl in the run folder. All ranks must call this
 * function. If it fails, training continues, and a message gives the reason.
 */
async function sampleAtEvaluation(options: SampleAtEvaluationOptions): Promise<void> {
  const { iteration, show, log, onMessage } = options;
  try {
    const sample = await show();
    if (sample !== undefined) log?.sample({ iteration, ...sample });
  } catch (error) {
    const isHarmless =
      MtlError.isInstance(error) && ['MTL_LOGITS_NOT_FINITE', 'MTL_RUN_RECORD'].includes(error.code);
    if (!isHarmless) throw error;
    onMessage(`  note: no sample at iteration ${iteration}: ${error.message}`);
  }
}

interface WriteExportsOptions {
  readonly configuration: PretrainingConfiguration;
  readonly model: TransformerConfiguration;
  readonly tokenizer: Tokenizer;
  /** JSON fields from the model's Hugging Face directory. */
  readonly origin: HuggingFaceOrigin | undefined;
  /**
   * The path of the last checkpoint, from which any layout can read all weights; undefined for a run that
   * does not save.
   */
  readonly checkpointPath: string | undefined;
  /**
   * Returns the weights that this process holds. If there is no checkpoint, these must be all weights of the
   * model.
   */
  readonly heldWeights: () => readonly LogicalTensor[];
  /** Receives a message about each written directory. */
  readonly onMessage: (text: string) => void;
}

/**
 * Writes the run's exports for other programs: its adapters in PEFT's format and, with --save-hf, its weights
 * (with adapters merged) and its tokenizer as a Hugging Face directory.
 *
 * @throws CheckpointError the errors of the writers for the kind of model
 */
async function writeExports(options: WriteExportsOptions): Promise<void> {
  const { configuration, model, tokenizer, origin, checkpointPath, onMessage } = options;
  const { checkpoint } = configuration;
  const { saveHuggingFace: directory } = checkpoint;
  if (Object.values(exportsOfRun(checkpoint)).every((asked) => asked === undefined)) return;
  const tensors =
    checkpointPath === undefined
      ? options.heldWeights()
      : savedWeights(await Checkpoint.open(checkpointPath));
  const recipe = findRecipe(configuration);
  const ofAdapters = await recipe.adapters.save(configuration, { model, tensors });
  if (ofAdapters !== undefined) onMessage(`wrote ${ofAdapters}`);
  if (directory === undefined) return;
  await recipe.saveHuggingFace({
    directory,
    model,
    tokenizer,
    tensors: recipe.adapters.merged(configuration, { model, tensors }),
    tokenizerFiles: await exportedTokenizerFiles(tokenizer.options, model),
    origin,
  });
  const notice = await exportedTokenizerNotice(directory, tokenizer);
  if (notice !== undefined) onMessage(notice);
  onMessage(`wrote ${directory}`);
}

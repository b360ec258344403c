import { availableParallelism } from 'node:os';
import type { JsonObject } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import type { SampleDataset, Tokenizer } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { type DType, setNumThreads } from '@mtl/kernels';
import {
  GptLanguageModel,
  type GptModelConfiguration,
  gptParameterNames,
  numLossTokens,
  numParameters,
  paddedVocabularySize,
  type StageBatch,
  writeHuggingFaceGpt2,
} from '@mtl/models';
import { type AdamwOptimizer, LearningRateSchedule, LossScaler, NumMicroBatches } from '@mtl/optimizer';
import type { StepProfiler } from '@mtl/pipeline';
import {
  type ConsoleStream,
  modelFlops,
  modelFlopsFormula,
  runTraining,
  StopSignals,
  Trainer,
  type TrainingProgress,
  type TrainingResult,
  weightTensors,
} from '@mtl/trainer';
import type { GptConfiguration } from '../gpt-configuration.js';
import { type GptPipeline, gptPipeline } from './gpt-pipeline.js';
import { loadTraining } from './load-training.js';
import { openDeviceOfRank } from './open-device-of-rank.js';
import { openTrainingData } from './open-training-data.js';
import { pipelineSchedule } from './pipeline-schedule.js';
import { sampleText } from './sample-text.js';
import { saveConfiguration } from './saved-configuration.js';
import { savedWeights } from './saved-weights.js';
import { type StageBatches, stageBatches } from './stage-batches.js';
import { tokenizerFiles } from './tokenizer-files.js';
import { openHuggingFace, trainingModel } from './training-model.js';
import { trainingOptimizer } from './training-optimizer.js';
import { TrainingProcesses } from './training-processes.js';
import { trainingProfiler } from './training-profiler.js';
import { openTrainingReporters, silentReporters, type TrainingReporters } from './training-reporters.js';

export interface BuildGptTrainingOptions {
  readonly configuration: GptConfiguration;
  /** Where the corpus that comes along is prepared. */
  readonly corpusDirectory: string;
  /** Progress and messages, which rank 0 writes. Default: standard output. */
  readonly stream?: ConsoleStream;
  /** The processes of the training, this one among them. Default: this process alone. */
  readonly world?: World | undefined;
  /** This process among those on its host. Default: alone there. */
  readonly local?: { readonly rank: number; readonly size: number };
  /** Go on from what is in --save, as a process does that a launcher has started again. */
  readonly isRestart?: boolean;
  /** When the job was started: a restart leaves checkpoints alone that are older. */
  readonly startedAt?: Date | undefined;
  /** Called on all ranks with the reduced gradients of a step (see `gradientTensors` of @mtl/trainer). */
  readonly onGradients?: (optimizer: AdamwOptimizer, iteration: number) => void | Promise<void>;
}

const dtypeOfPrecision: Readonly<Record<'fp32' | 'bf16' | 'fp16', DType>> = {
  fp32: 'float32',
  bf16: 'bfloat16',
  fp16: 'float16',
};

/**
 * A GPT training, built and ready to run: what the app and tests share. With several processes each builds one and calls
 * its methods; rank 0 reports.
 */
export class GptTraining {
  readonly model: GptModelConfiguration;
  /** This rank's part of it. */
  readonly part: GptPipeline;
  readonly tokenizer: Tokenizer;
  readonly optimizer: AdamwOptimizer;
  readonly trainer: Trainer<StageBatch>;
  readonly reporters: TrainingReporters;
  readonly processes: TrainingProcesses;
  readonly #configuration: GptConfiguration;
  readonly #dataPath: readonly string[];
  readonly #lossScaler: LossScaler;
  readonly #batches: StageBatches;
  readonly #validation: SampleDataset | undefined;

  private constructor(parts: {
    configuration: GptConfiguration;
    processes: TrainingProcesses;
    dataPath: readonly string[];
    model: GptModelConfiguration;
    part: GptPipeline;
    tokenizer: Tokenizer;
    optimizer: AdamwOptimizer;
    trainer: Trainer<StageBatch>;
    reporters: TrainingReporters;
    lossScaler: LossScaler;
    batches: StageBatches;
    validation: SampleDataset | undefined;
  }) {
    this.model = parts.model;
    this.part = parts.part;
    this.tokenizer = parts.tokenizer;
    this.optimizer = parts.optimizer;
    this.trainer = parts.trainer;
    this.reporters = parts.reporters;
    this.processes = parts.processes;
    this.#configuration = parts.configuration;
    this.#dataPath = parts.dataPath;
    this.#lossScaler = parts.lossScaler;
    this.#batches = parts.batches;
    this.#validation = parts.validation;
  }

  /** Opens data, builds model and optimizer, and loads what --load names. */
  static async build(options: BuildGptTrainingOptions): Promise<GptTraining> {
    const { configuration, corpusDirectory, world, stream = process.stdout } = options;
    const { training, parallel, checkpoint } = configuration;
    const local = options.local ?? { rank: 0, size: 1 };
    checkSupported(configuration);
    openDeviceOfRank(parallel.device, { localRank: local.rank });
    const { placement } = pipelineSchedule(parallel, training.numMicroBatches);
    const processes = new TrainingProcesses({ world, parallel, ends: [placement[0]!, placement.at(-1)!] });
    const onMessage = (text: string): void => {
      if (processes.isFirst) stream.write(`${text}\n`);
    };
    setNumThreads(parallel.threads ?? Math.max(1, Math.floor(availableParallelism() / local.size)), {
      // processes of a host would all pin theirs to the same cores
      pin: local.size === 1,
    });
    const huggingFace = await openHuggingFace(configuration);
    const { datasets, tokenizer, dataPath } = await processes.prepare(
      () =>
        openTrainingData(configuration, {
          corpusDirectory,
          huggingFaceTokenizer: huggingFace?.tokenizerFiles['tokenizer.json'],
          onMessage,
        }),
      { isFirstOnHost: local.rank === 0 },
    );
    const { train } = datasets;
    if (train === undefined) {
      throw new ConfigurationError(
        'MTL_SPLIT',
        `--split ${configuration.data.split} leaves nothing to train on`,
        {
          expected: 'a first number above 0, such as 969,30,1',
        },
      );
    }
    const model = trainingModel(configuration, { tokenizer, huggingFace });
    const dtype = dtypeOfPrecision[training.precision];
    const { device } = parallel;
    const profiler = trainingProfiler(configuration, { world, processes });
    const part = gptPipeline({ configuration, model, processes, dtype, recorder: profiler, onMessage });
    const optimizer = trainingOptimizer({
      ...{ configuration, processes, device, dtype },
      parameters: part.parameters,
      pieces: new Map([...part.stages].map(([chunk, stage]) => [chunk, stage.parameters])),
    });
    const lossScaler = new LossScaler(configuration.optimizer.lossScale);
    const progress = await loadTraining({
      ...{ checkpoint, huggingFace, optimizer, lossScaler, processes, onMessage },
      parameterNames: gptParameterNames(model),
      restartFrom: options.isRestart === true ? checkpoint.save : undefined,
      startedAt: options.startedAt,
    });
    const flopsShape = {
      batchSize: 1,
      sequenceLength: configuration.model.sequenceLength,
      numLayers: model.numLayers,
      hiddenSize: model.hiddenSize,
      ffnHiddenSize: model.ffnHiddenSize,
      vocabSize: paddedVocabularySize(model),
    };
    onMessage(
      `GPT of ${numParameters(model).toLocaleString('en-US')} parameters in ${training.precision}, ` +
        `vocabulary ${tokenizer.vocabularySize}; ${train.length.toLocaleString('en-US')} samples to train on`,
    );
    const flopsFormula = modelFlopsFormula(flopsShape);
    const reporters = processes.isFirst
      ? await openTrainingReporters({
          ...{ configuration, stream, flopsFormula },
          resumeIteration: progress?.iteration ?? 0,
        })
      : silentReporters(flopsFormula);
    const batches = stageBatches({
      dataset: train,
      needsTokens: part.pipeline.isFirst || part.pipeline.isLast,
      sampler: {
        kind: 'single',
        microBatchSize: training.microBatchSize,
        consumedSamples: progress?.consumedSamples ?? 0,
        dataParallelRank: processes.coordinates.dp,
        dataParallelSize: parallel.dataParallelSize,
      },
    });
    const trainer = gptTrainer({
      ...{ configuration, part, optimizer, lossScaler, batches, progress, profiler },
      flopsPerSample: modelFlops(flopsShape),
      onGradients: options.onGradients,
    });
    const validation = datasets.valid;
    return new GptTraining({
      ...{ configuration, processes, dataPath, model, part, tokenizer, optimizer, trainer },
      ...{ reporters, lossScaler, batches, validation },
    });
  }

  /** Trains to the end, or until a signal; saves and evaluates as the flags say. */
  async run(): Promise<TrainingResult> {
    const { checkpoint, training } = this.#configuration;
    const signals = new StopSignals((signal) => {
      for (const reporter of this.reporters.all) {
        reporter.message?.(`${signal}: finishing this step, then saving; a second signal ends at once`);
      }
    });
    try {
      const result = await runTraining({
        trainer: this.trainer,
        optimizer: this.optimizer,
        lossScaler: this.#lossScaler,
        reporters: this.reporters.all,
        exitInterval: training.exitInterval,
        signals,
        save:
          checkpoint.save === undefined
            ? undefined
            : {
                directory: checkpoint.save,
                interval: checkpoint.saveInterval,
                keepLast: checkpoint.keepLast,
                configuration: await this.#savedConfiguration(checkpoint.save),
              },
        evaluation: this.#evaluation(),
      });
      const { saveHuggingFace } = checkpoint;
      if (saveHuggingFace !== undefined) {
        await this.processes.together(async () => {
          if (this.processes.isFirst) await this.#saveHuggingFace(saveHuggingFace, result.checkpointPath);
        });
      }
      return result;
    } finally {
      signals.close();
    }
  }

  async close(): Promise<void> {
    this.reporters.close();
    await this.#batches.close();
    this.optimizer.dispose();
    this.optimizer.buffers.dispose();
  }

  /** How a text goes on that begins with the prompt; every tensor-parallel and pipeline rank takes part. */
  async sample(prompt: string): Promise<string | undefined> {
    // data-parallel ranks hold the same model: the first of them is enough
    if (this.processes.coordinates.dp !== 0) return undefined;
    const { part, tokenizer } = this;
    const model = new GptLanguageModel(part.whole);
    return await sampleText({ model, tokenizer, prompt, maxNewTokens: 120, seed: 1 });
  }

  /** What checkpoints remember, and the tokenizer's files beside them: rank 0's are stored. */
  async #savedConfiguration(directory: string): Promise<JsonObject> {
    return await this.processes.together(async () => {
      if (!this.processes.isFirst) return {};
      return await saveConfiguration({
        directory,
        configuration: this.#configuration,
        model: this.model,
        tokenizer: this.tokenizer,
        data: { dataPath: this.#dataPath, split: this.#configuration.data.split },
      });
    });
  }

  /**
   * Writes the weights as a Hugging Face GPT-2 directory, tokenizer included: from the checkpoint, which holds them whole
   * whatever the layout.
   */
  async #saveHuggingFace(directory: string, checkpointPath: string | undefined): Promise<void> {
    const { options, eod } = this.tokenizer;
    const files = options === undefined ? [] : tokenizerFiles(options);
    await writeHuggingFaceGpt2({
      directory,
      model: this.model,
      tensors:
        checkpointPath === undefined ? weightTensors(this.optimizer) : await savedWeights(checkpointPath),
      endTokens: [eod],
      tokenizerFiles: Object.fromEntries(files.map(({ name, path }) => [name, path])),
    });
    for (const reporter of this.reporters.all) reporter.message?.(`wrote ${directory}`);
  }

  #evaluation() {
    const dataset = this.#validation;
    if (dataset === undefined) return undefined;
    const { evalInterval, evalIterations, globalBatchSize, microBatchSize } = this.#configuration.training;
    const { dataParallelSize } = this.#configuration.parallel;
    const { pipeline } = this.part;
    const needsTokens = pipeline.isFirst || pipeline.isLast;
    const sampler = {
      ...({ kind: 'single', microBatchSize, dataParallelSize } as const),
      dataParallelRank: this.processes.coordinates.dp,
    };
    return {
      interval: evalInterval,
      numMicroBatches: (evalIterations * globalBatchSize) / (microBatchSize * dataParallelSize),
      open: () => stageBatches({ dataset, sampler, needsTokens, thread: 'main' }),
    };
  }
}

/** The loop over this rank's micro-batches. */
function gptTrainer(parts: {
  readonly configuration: GptConfiguration;
  readonly part: GptPipeline;
  readonly optimizer: AdamwOptimizer;
  readonly lossScaler: LossScaler;
  readonly batches: StageBatches;
  readonly progress: TrainingProgress | undefined;
  readonly profiler: StepProfiler | undefined;
  readonly flopsPerSample: number;
  readonly onGradients: BuildGptTrainingOptions['onGradients'];
}): Trainer<StageBatch> {
  const { configuration, part, optimizer, lossScaler, batches, progress, profiler, onGradients } = parts;
  const { training, parallel, model } = configuration;
  return new Trainer<StageBatch>({
    ...{ pipeline: part.pipeline, optimizer, lossScaler, numLossTokens, batches, profiler },
    learningRate: learningRateOf(configuration),
    microBatches: new NumMicroBatches({
      globalBatchSize: training.globalBatchSize,
      microBatchSize: training.microBatchSize,
      dataParallelSize: parallel.dataParallelSize,
      ...(training.rampup === undefined ? {} : { rampup: training.rampup }),
    }),
    device: parallel.device,
    sequenceLength: model.sequenceLength,
    flopsPerSample: parts.flopsPerSample,
    trainIterations: training.trainIterations,
    onGradients: onGradients && ((iteration) => onGradients(optimizer, iteration)),
    ...(progress === undefined ? {} : { progress }),
  });
}

/** Refuses what flags can ask for and this build or version cannot do. */
function checkSupported({ parallel, checkpoint }: GptConfiguration): void {
  if (parallel.worldSize > 1 && checkpoint.saveHuggingFace !== undefined && checkpoint.save === undefined) {
    throw new ConfigurationError(
      'MTL_FLAG_NEEDS',
      '--save-hf with several processes is written from the last checkpoint',
      { expected: '--save DIR' },
    );
  }
}

function learningRateOf({ optimizer }: GptConfiguration) {
  const { unit, ...options } = optimizer.learningRate;
  const schedule = new LearningRateSchedule(options);
  return ({ numUpdates, consumedSamples }: { numUpdates: number; consumedSamples: number }): number =>
    schedule.at(unit === 'samples' ? consumedSamples : numUpdates);
}

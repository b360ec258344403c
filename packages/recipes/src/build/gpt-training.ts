import { availableParallelism } from 'node:os';
import { type BatchLoader, createBatchLoader, type SampleDataset, type Tokenizer } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { type DType, isDeviceAvailable, setNumThreads } from '@mtl/kernels';
import {
  GptStage,
  numLossTokens,
  numParameters,
  paddedVocabularySize,
  type TokenBatch,
  writeHuggingFaceGpt2,
} from '@mtl/models';
import {
  AdamwOptimizer,
  LearningRateSchedule,
  LossScaler,
  NumMicroBatches,
  ParameterBuffers,
} from '@mtl/optimizer';
import {
  type ConsoleStream,
  modelFlops,
  modelFlopsFormula,
  runTraining,
  StopSignals,
  Trainer,
  type TrainingResult,
  weightTensors,
} from '@mtl/trainer';
import type { GptConfiguration } from '../gpt-configuration.js';
import { loadTraining } from './load-training.js';
import { openTrainingData } from './open-training-data.js';
import { saveConfiguration } from './saved-configuration.js';
import { tokenizerFiles } from './tokenizer-files.js';
import { openHuggingFace, trainingModel } from './training-model.js';
import { openTrainingReporters, type TrainingReporters } from './training-reporters.js';

export interface BuildGptTrainingOptions {
  readonly configuration: GptConfiguration;
  /** Where the corpus that comes along is prepared. */
  readonly corpusDirectory: string;
  /** Progress and messages. Default: standard output. */
  readonly stream?: ConsoleStream;
}

const dtypeOfPrecision: Readonly<Record<'fp32' | 'bf16' | 'fp16', DType>> = {
  fp32: 'float32',
  bf16: 'bfloat16',
  fp16: 'float16',
};

/** A GPT training, built and ready to run: what the app and tests share. */
export class GptTraining {
  readonly stage: GptStage;
  readonly tokenizer: Tokenizer;
  readonly optimizer: AdamwOptimizer;
  readonly trainer: Trainer<TokenBatch>;
  readonly reporters: TrainingReporters;
  readonly #configuration: GptConfiguration;
  readonly #dataPath: readonly string[];
  readonly #lossScaler: LossScaler;
  readonly #loader: BatchLoader;
  readonly #validation: SampleDataset | undefined;

  private constructor(parts: {
    configuration: GptConfiguration;
    dataPath: readonly string[];
    stage: GptStage;
    tokenizer: Tokenizer;
    optimizer: AdamwOptimizer;
    trainer: Trainer<TokenBatch>;
    reporters: TrainingReporters;
    lossScaler: LossScaler;
    loader: BatchLoader;
    validation: SampleDataset | undefined;
  }) {
    this.stage = parts.stage;
    this.tokenizer = parts.tokenizer;
    this.optimizer = parts.optimizer;
    this.trainer = parts.trainer;
    this.reporters = parts.reporters;
    this.#configuration = parts.configuration;
    this.#dataPath = parts.dataPath;
    this.#lossScaler = parts.lossScaler;
    this.#loader = parts.loader;
    this.#validation = parts.validation;
  }

  /** Opens data, builds model and optimizer, and loads what --load names. */
  static async build(options: BuildGptTrainingOptions): Promise<GptTraining> {
    const { configuration, corpusDirectory, stream = process.stdout } = options;
    const { training, parallel, optimizer: optimizerSettings } = configuration;
    const onMessage = (text: string): void => void stream.write(`${text}\n`);
    checkDevice(configuration);
    setNumThreads(parallel.threads ?? availableParallelism(), { pin: true });
    const huggingFace = await openHuggingFace(configuration);
    const { datasets, tokenizer, dataPath } = await openTrainingData(configuration, {
      corpusDirectory,
      huggingFaceTokenizer: huggingFace?.tokenizerFiles['tokenizer.json'],
      onMessage,
    });
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
    const stage = new GptStage({
      model,
      device,
      dtype,
      seed: training.seed,
      recomputation: training.recompute,
    });
    const buffers = new ParameterBuffers(stage.parameters, { device, dtype });
    buffers.initialize(training.seed);
    const optimizer = new AdamwOptimizer(buffers, {
      beta1: optimizerSettings.adamBeta1,
      beta2: optimizerSettings.adamBeta2,
      epsilon: optimizerSettings.adamEpsilon,
      weightDecay: optimizerSettings.weightDecay,
      clipGradient: optimizerSettings.clipGrad,
    });
    const lossScaler = new LossScaler(optimizerSettings.lossScale);
    const { checkpoint } = configuration;
    const progress = await loadTraining({ checkpoint, huggingFace, optimizer, lossScaler, onMessage });
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
    const reporters = await openTrainingReporters({
      configuration,
      stream,
      flopsFormula: modelFlopsFormula(flopsShape),
      resumeIteration: progress?.iteration ?? 0,
    });
    const loader = createBatchLoader({
      dataset: train,
      sampler: {
        kind: 'single',
        microBatchSize: training.microBatchSize,
        consumedSamples: progress?.consumedSamples ?? 0,
      },
    });
    const trainer = new Trainer<TokenBatch>({
      stage,
      optimizer,
      learningRate: learningRateOf(configuration),
      lossScaler,
      microBatches: new NumMicroBatches({
        globalBatchSize: training.globalBatchSize,
        microBatchSize: training.microBatchSize,
        dataParallelSize: parallel.dataParallelSize,
        ...(training.rampup === undefined ? {} : { rampup: training.rampup }),
      }),
      device,
      batches: loader,
      numLossTokens,
      sequenceLength: configuration.model.sequenceLength,
      flopsPerSample: modelFlops(flopsShape),
      trainIterations: training.trainIterations,
      ...(progress === undefined ? {} : { progress }),
    });
    const validation = datasets.valid;
    return new GptTraining({
      ...{ configuration, dataPath, stage, tokenizer, optimizer, trainer },
      ...{ reporters, lossScaler, loader, validation },
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
                configuration: await saveConfiguration({
                  directory: checkpoint.save,
                  configuration: this.#configuration,
                  model: this.stage.model,
                  tokenizer: this.tokenizer,
                  data: { dataPath: this.#dataPath, split: this.#configuration.data.split },
                }),
              },
        evaluation: this.#evaluation(),
      });
      if (checkpoint.saveHuggingFace !== undefined) await this.#saveHuggingFace(checkpoint.saveHuggingFace);
      return result;
    } finally {
      signals.close();
    }
  }

  async close(): Promise<void> {
    this.reporters.close();
    await this.#loader.close();
    this.optimizer.dispose();
    this.optimizer.buffers.dispose();
  }

  /** Writes the weights as a Hugging Face GPT-2 directory, tokenizer included. */
  async #saveHuggingFace(directory: string): Promise<void> {
    const { options, eod } = this.tokenizer;
    const files = options === undefined ? [] : tokenizerFiles(options);
    await writeHuggingFaceGpt2({
      directory,
      model: this.stage.model,
      tensors: weightTensors(this.optimizer),
      endTokens: [eod],
      tokenizerFiles: Object.fromEntries(files.map(({ name, path }) => [name, path])),
    });
    for (const reporter of this.reporters.all) reporter.message?.(`wrote ${directory}`);
  }

  #evaluation() {
    const dataset = this.#validation;
    if (dataset === undefined) return undefined;
    const { evalInterval, evalIterations, globalBatchSize, microBatchSize } = this.#configuration.training;
    return {
      interval: evalInterval,
      numMicroBatches: (evalIterations * globalBatchSize) / microBatchSize,
      open: () => createBatchLoader({ dataset, sampler: { kind: 'single', microBatchSize }, thread: 'main' }),
    };
  }
}

function checkDevice({ parallel }: GptConfiguration): void {
  if (isDeviceAvailable(parallel.device)) return;
  throw new ConfigurationError('MTL_DEVICE', `--device ${parallel.device} is not available in this build`, {
    expected: 'cpu',
    remedy: 'leave --device out, or pass --device cpu',
  });
}

function learningRateOf({ optimizer }: GptConfiguration) {
  const { unit, ...options } = optimizer.learningRate;
  const schedule = new LearningRateSchedule(options);
  return ({ numUpdates, consumedSamples }: { numUpdates: number; consumedSamples: number }): number =>
    schedule.at(unit === 'samples' ? consumedSamples : numUpdates);
}

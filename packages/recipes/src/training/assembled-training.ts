import type { JsonObject, LogicalTensor } from '@mtl/checkpoint';
import { keepTokenizer } from '@mtl/configuration';
import type { Tokenizer } from '@mtl/data';
import type { TransformerConfiguration } from '@mtl/models';
import { LossScaler, type LossScalerOptions, type ModelOptimizer } from '@mtl/optimizer';
import {
  type RunTrainingOptions,
  type SaveSettings,
  type StepMetrics,
  StopSignals,
  Trainer,
  type TrainerOptions,
  type TrainingProgress,
  type TrainingResult,
  trainingSteps,
  weightTensors,
} from '@mtl/trainer';
import { type LoadTrainingOptions, loadTraining } from '../checkpoints/load-training.js';
import type { ModelChunk } from '../models/model-chunk.js';
import { type ModelPart, type ModelPartOptions, modelPart } from '../models/model-part.js';
import { type OptimizedConfiguration, trainingOptimizer } from './training-optimizer.js';
import type { TrainingProcesses } from './training-processes.js';

export interface AssembledTrainingOptions<Model extends TransformerConfiguration, Chunk>
  extends ModelPartOptions<Model, Chunk> {
  readonly configuration: ModelPartOptions<Model, Chunk>['configuration'] & OptimizedConfiguration;
  readonly lossScale: LossScalerOptions;
}

/** What a run saves, and where. */
export interface SaveRunOptions
  extends Pick<SaveSettings, 'owned' | 'interval' | 'keepLast' | 'inBackground'> {
  /** Undefined: nothing is saved. */
  readonly directory: string | undefined;
  /** Its files are kept next to the checkpoints. */
  readonly tokenizer: Pick<Tokenizer, 'options'>;
  /** What each checkpoint saves of the run; rank 0 calls it. */
  readonly configurationFor: (directory: string) => Promise<JsonObject>;
}

export interface RunAssembledOptions<Batch, End>
  extends Pick<
    RunTrainingOptions<Batch>,
    'trainer' | 'reporters' | 'evaluation' | 'resumedFrom' | 'exitInterval' | 'deadlineMs'
  > {
  readonly save: SaveRunOptions;
  /** Of a signal that ends the run. */
  readonly onMessage: (text: string) => void;
  /** What the run still does with its results, before a signal ends the process again. */
  readonly onEnd: (result: TrainingResult) => Promise<End>;
}

/**
 * The model, optimizer and loss scaler of this rank: what every training run consists of, pretraining and
 * fine-tuning, and what it does with them. All ranks call its methods.
 */
export class AssembledTraining<Batch, Chunk extends ModelChunk<Batch>> {
  readonly part: ModelPart<Batch, Chunk>;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly #processes: TrainingProcesses;

  /** With initial weights. */
  constructor(options: AssembledTrainingOptions<TransformerConfiguration, Chunk>) {
    const { configuration, processes, dtype } = options;
    this.#processes = processes;
    this.part = modelPart<TransformerConfiguration, Batch, Chunk>(options);
    this.optimizer = trainingOptimizer({
      configuration,
      processes,
      dtype,
      device: configuration.parallel.device,
      parameters: this.part.parameters,
      units: this.part.units,
      chunks: new Map([...this.part.stages].map(([chunk, stage]) => [chunk, stage.parameters])),
    });
    this.lossScaler = new LossScaler(options.lossScale);
  }

  /** Reads what the run starts or goes on from, see `loadTraining`. */
  async load(
    options: Omit<LoadTrainingOptions, 'optimizer' | 'lossScaler' | 'processes'>,
  ): Promise<TrainingProgress | undefined> {
    const { optimizer, lossScaler } = this;
    return await loadTraining({ ...options, optimizer, lossScaler, processes: this.#processes });
  }

  /** The loop over this rank's micro-batches. */
  trainer(options: Omit<TrainerOptions<Batch>, 'pipeline' | 'optimizer' | 'lossScaler'>): Trainer<Batch> {
    const { optimizer, lossScaler } = this;
    return new Trainer<Batch>({ ...options, pipeline: this.part.pipeline, optimizer, lossScaler });
  }

  /**
   * Trains to the end, or until a signal; saves and evaluates at the intervals. Yields each step, and returns
   * what `onEnd` does.
   */
  async *steps<End>(options: RunAssembledOptions<Batch, End>): AsyncGenerator<StepMetrics, End, undefined> {
    const { save, onMessage, onEnd, ...others } = options;
    const { optimizer, lossScaler } = this;
    const signals = new StopSignals((signal) =>
      onMessage(`${signal}: finishing this step, then saving; a second signal ends at once`),
    );
    try {
      const settings = await this.#saveSettings(save);
      const steps = trainingSteps({ ...others, optimizer, lossScaler, signals, save: settings });
      return await onEnd(yield* steps);
    } finally {
      signals.close();
    }
  }

  /** The weights, as far as this rank holds them. */
  weights(): readonly LogicalTensor[] {
    return weightTensors(this.optimizer);
  }

  dispose(): void {
    this.part.dispose();
    this.optimizer.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async #saveSettings(options: SaveRunOptions): Promise<SaveSettings | undefined> {
    const { directory, tokenizer, configurationFor, ...settings } = options;
    if (directory === undefined) return undefined;
    const { isFirst } = this.#processes;
    return {
      ...settings,
      directory,
      configuration: await this.#processes.together(async () =>
        isFirst ? await configurationFor(directory) : {},
      ),
      prepareDirectory: isFirst ? await keepTokenizer(directory, tokenizer) : undefined,
    };
  }
}

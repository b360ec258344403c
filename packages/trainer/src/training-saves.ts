import {
  BackgroundSaver,
  type JsonObject,
  type OwnedDirectory,
  type SaveOptions,
  saveCheckpoint,
} from '@mtl/checkpoint';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import type { TrainingReporter } from './metrics/training-reports.js';
import { refuseStepUnderWay } from './steps/step-errors.js';
import type { Trainer } from './trainer.js';
import { optimizerTensors, trainingState, weightTensors } from './training-state.js';

export interface SaveSettings {
  readonly directory: string;
  /** The number of steps between checkpoints. If undefined, a checkpoint is saved only at the end. */
  readonly interval: number | undefined;
  /** The number of checkpoints with the same `run` to keep. If undefined, all are kept. */
  readonly keepLast: number | undefined;
  /**
   * The directory that this run owns: the directory of its checkpoints, or a parent directory. Only rank 0
   * passes it. If neither `owned` nor `run` is given, checkpoints that name no run count as checkpoints of
   * this run.
   */
  readonly owned?: OwnedDirectory | undefined;
  /**
   * The name of the run that is stored in checkpoints. Only rank 0 passes it. A resumed run keeps the name in
   * the loaded checkpoint. Default: the job name of the directory's owner.
   */
  readonly run?: string | undefined;
  /** The checkpoint from which training continues. It is never deleted. */
  readonly loadedFrom?: string | undefined;
  /**
   * True to continue training while a checkpoint is written from a copy in host memory. Default: false, so
   * that training waits until the checkpoint is written.
   */
  readonly inBackground?: boolean;
  readonly configuration: JsonObject;
  /**
   * Called on rank 0 before each save, when the directory exists. Restores files next to the checkpoints,
   * such as the tokenizer, in case the directory was deleted during the run.
   */
  readonly prepareDirectory?: (() => Promise<void>) | undefined;
}

interface TrainingSavesOptions {
  /** The trainer. The states of its extensions are also saved. */
  readonly trainer: Pick<Trainer<never>, 'progress' | 'ranks' | 'isStepUnderWay' | 'extensions'>;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly reporters: readonly TrainingReporter[];
  readonly save: SaveSettings;
}

/**
 * Saves the checkpoints of a training run. All ranks must call the same methods, between steps. In the
 * background, only one checkpoint is written at a time.
 */
export class TrainingSaves {
  readonly #options: TrainingSavesOptions;
  readonly #background: BackgroundSaver | undefined;
  /** The iteration of the newest checkpoint, which may still be being written. */
  #iteration: number | undefined;
  #newestPath: string | undefined;

  constructor(options: TrainingSavesOptions) {
    this.#options = options;
    this.#background = options.save.inBackground === true ? new BackgroundSaver() : undefined;
  }

  /** The path of the newest complete checkpoint. */
  get newestPath(): string | undefined {
    return this.#newestPath;
  }

  /** True if this rank is still writing its slices of a checkpoint. */
  get isWriting(): boolean {
    return this.#background?.isWritten === false;
  }

  /**
   * Waits until the previous checkpoint is published. Then saves a checkpoint, or starts to save it in the
   * background.
   */
  async atInterval(): Promise<void> {
    if (this.#background === undefined) return await this.atEnd();
    await this.finish();
    await this.#background.begin(this.#saveOptions());
    this.#iteration = this.#options.trainer.progress.iteration;
  }

  /**
   * Waits until the current checkpoint is written, and publishes it. Does nothing if no checkpoint is being
   * written.
   */
  async finish(): Promise<void> {
    if (this.#background?.isSaving !== true) return;
    this.#saved(await this.#background.finish());
  }

  /**
   * Does the same as `finish`, after an error that ends the training run. If the save also fails, its error
   * is not thrown, because it would hide the first error.
   */
  async finishAfterError(): Promise<void> {
    try {
      await this.finish();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#say(`the checkpoint of iteration ${this.#iteration} was not saved: ${why}`);
    }
  }

  /** Saves a checkpoint of the current step, unless it exists already. */
  async atEnd(): Promise<void> {
    await this.finish();
    const { iteration } = this.#options.trainer.progress;
    if (this.#iteration === iteration) return;
    this.#saved(await saveCheckpoint(this.#saveOptions()));
    this.#iteration = iteration;
  }

  #saved({ path }: { readonly path: string }): void {
    this.#newestPath = path;
    this.#say(`saved ${path}`);
  }

  #say(text: string): void {
    for (const reporter of this.#options.reporters) reporter.message?.(text);
  }

  #saveOptions(): SaveOptions {
    const { trainer, optimizer, lossScaler, save } = this.#options;
    const { world } = optimizer.groups;
    refuseStepUnderWay('a checkpoint', trainer);
    const { progress } = trainer;
    return {
      rank: world?.rank ?? 0,
      worldSize: world?.size ?? 1,
      barrier: async (succeeded) => trainer.ranks.maximum([succeeded ? 0 : 1])[0] === 0,
      directory: save.directory,
      prepareDirectory: save.prepareDirectory,
      owned: save.owned,
      run: save.run,
      loadedFrom: save.loadedFrom,
      iteration: progress.iteration,
      tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
      state: trainingState({
        progress,
        optimizer,
        lossScaler,
        extensions: trainer.extensions,
        configuration: save.configuration,
      }),
      ...(save.keepLast === undefined ? {} : { keepLast: save.keepLast }),
    };
  }
}

import type { Checkpoint, JsonObject, LogicalTensor } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import { keepTokenizer } from '@mtl/configuration/saved';
import { UsageError } from '@mtl/errors';
import { checkOptions, type OptionChecks } from '@mtl/errors/options';
import type { TransformerConfiguration } from '@mtl/models';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import type { Tokenizer } from '@mtl/tokenizers';
import {
  type RunOutcome,
  type RunTrainingOptions,
  type SaveSettings,
  type StepMetrics,
  type SummaryRow,
  type Trainer,
  type TrainingReporter,
  type TrainingResult,
  weightTensors,
} from '@mtl/trainer';
import { finishSteps, trainingSteps } from '@mtl/trainer/internal';
import { rememberStopSignal, StopSignals } from '@mtl/trainer/stop-signals';
import { closeAll } from '../close-all.js';
import { reportersOption } from '../option-checks.js';
import type { ModelChunk, RankModel } from '../parts/models/model-part.js';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';
import type { ModelSample } from '../parts/samples/sample-continuation.js';
import type { ThreadChoice } from '../parts/threads/threads-of-run.js';
import { continuedRun, type SaveDirectory } from '../save-directory.js';
import type { RunLog } from './run-log.js';
import type { RunReporters } from './training-reporters.js';

/** The directory and interval of a run's checkpoints, and the configuration that each checkpoint stores. */
interface TrainingSaveOptions extends Pick<SaveSettings, 'interval' | 'keepLast' | 'inBackground'> {
  /** The directory of checkpoints; undefined if nothing is saved. */
  readonly directory: string | undefined;
  /** Owns the directory, or a parent directory. */
  readonly owner: SaveDirectory;
  /** The checkpoint from which training continues; undefined for a new run. */
  readonly loaded: Checkpoint | undefined;
  /** True if --ckpt-step selected this checkpoint. */
  readonly isStepChosen?: boolean;
  /** Returns the configuration that each checkpoint stores. Called only on rank 0. */
  readonly configurationFor: (directory: string) => Promise<JsonObject>;
}

/** The opened parts of a training run. */
interface TrainingComponents<Batch, Configuration, Reporters extends RunReporters>
  extends Pick<RunTrainingOptions<Batch>, 'evaluation' | 'resumedFrom' | 'exitInterval' | 'deadlineMs'> {
  readonly configuration: Configuration;
  readonly processes: TrainingProcesses;
  /** The architecture of the model. */
  readonly model: TransformerConfiguration;
  readonly tokenizer: Tokenizer;
  /** The number of threads for this rank's kernels. It does not change during the run. */
  readonly threads: ThreadChoice;
  /** This rank's part of the model. */
  readonly part: RankModel<Batch, ModelChunk<Batch>>;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly trainer: Trainer<Batch>;
  /** The micro-batches that the trainer reads. */
  readonly batches: { close(): Promise<void> };
  /** Closes the files of the datasets. Default: no action. */
  readonly closeData?: () => void;
  readonly save: TrainingSaveOptions;
  /** The run's log; undefined on ranks other than 0, and for a run without a folder. */
  readonly log: RunLog | undefined;
  readonly reporters: Reporters;
  /**
   * Called on all ranks with the run's result. During the call, signals still have no effect. Default: no
   * action.
   */
  readonly onEnd?: (result: TrainingResult) => Promise<void>;
  /**
   * Generates a sample of the model. All ranks must call this function, and the ranks of the first replica
   * receive the sample. Default: no sample.
   */
  readonly show?: (how: { readonly isBrief: boolean }) => Promise<ModelSample | undefined>;
  /** The world that `train` joined. The run closes it at the end, and aborts it after an error. */
  readonly ownWorld?: World | undefined;
}

/** Further reporters for the steps of a run on this rank. */
interface RunTrainingReporters {
  readonly reporters?: readonly TrainingReporter[];
}

const checks: OptionChecks<RunTrainingReporters> = { reporters: reportersOption };

/**
 * A training run of any kind that is ready to train: on documents or conversations (see `openTraining`), or
 * fine-tuning for a task (see `fineTune`). Each process has an instance and calls its methods. Rank 0
 * reports.
 *
 * ```ts
 * for await (const { iteration, loss } of training) console.log(iteration, loss);
 * ```
 *
 * @typeParam Batch a micro-batch
 * @typeParam Configuration the run's configuration
 * @typeParam Reporters the run's reporters
 */
export class Training<Batch, Configuration, Reporters extends RunReporters = RunReporters>
  implements AsyncIterable<StepMetrics>, AsyncDisposable
{
  readonly #parts: TrainingComponents<Batch, Configuration, Reporters>;
  #result: TrainingResult | undefined;
  #hasBegun = false;

  /** Takes ownership of the components, which `close` closes. */
  constructor(parts: TrainingComponents<Batch, Configuration, Reporters>) {
    this.#parts = parts;
  }

  /**
   * The run's configuration. In a resumed run, it includes the settings that the run keeps from its
   * checkpoint.
   */
  get configuration(): Configuration {
    return this.#parts.configuration;
  }

  get model(): TransformerConfiguration {
    return this.#parts.model;
  }

  get tokenizer(): Tokenizer {
    return this.#parts.tokenizer;
  }

  get trainer(): Trainer<Batch> {
    return this.#parts.trainer;
  }

  get reporters(): Reporters {
    return this.#parts.reporters;
  }

  get processes(): TrainingProcesses {
    return this.#parts.processes;
  }

  get threads(): ThreadChoice {
    return this.#parts.threads;
  }

  /** This rank's part of the model. */
  get part(): RankModel<Batch, ModelChunk<Batch>> {
    return this.#parts.part;
  }

  get optimizer(): ModelOptimizer {
    return this.#parts.optimizer;
  }

  /** The result of the run; undefined before its end, and after an error. */
  get result(): TrainingResult | undefined {
    return this.#result;
  }

  /** Returns this rank's weights or slices of weights. */
  weights(): readonly LogicalTensor[] {
    return weightTensors(this.optimizer);
  }

  /**
   * Trains to the end or until a signal, and saves and evaluates as configured. Yields each step after the
   * step's evaluation and save. After the final state has been saved, returns how the run ended. All ranks
   * must iterate over all steps, or leave the loop after the same step.
   *
   * @throws ConfigurationError `MTL_OPTION`; UsageError `MTL_RUN_OVER` if the steps have been iterated over
   *   before, completely or not
   */
  async *steps(options: RunTrainingReporters = {}): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    checkOptions(options, { of: 'the steps of a run', checks });
    const { reporters = [] } = options;
    if (this.#hasBegun) {
      throw new UsageError('MTL_RUN_OVER', 'the steps of this training run have begun before', {
        remedy: 'build another one, which goes on from what was saved (checkpoint.load)',
      });
    }
    this.#hasBegun = true;
    const { log, ownWorld } = this.#parts;
    // this reason remains if the consumer leaves the loop
    let end: Pick<TrainingResult, 'reason'> | { readonly reason: 'left' } | undefined = { reason: 'left' };
    try {
      const result = yield* this.#steps([...this.reporters.all, ...reporters]);
      this.#result = result;
      end = result;
      return result;
    } catch (error) {
      end = undefined;
      log?.fail(error, this.trainer.progress);
      // ends the other processes with this error; otherwise they would wait for this process
      ownWorld?.abort(error as Error);
      throw error;
    } finally {
      if (end !== undefined) log?.end({ reason: end.reason, iteration: this.trainer.progress.iteration });
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    return this.steps();
  }

  /** Iterates over all `steps`, and returns how the run ended. */
  async run(options: RunTrainingReporters = {}): Promise<TrainingResult> {
    return await finishSteps(this.steps(options));
  }

  /** Generates a sample of the model, adds it to samples.jsonl in the run folder, and returns its text. */
  async show(): Promise<string | undefined> {
    const { log, show } = this.#parts;
    const sample = await show?.({ isBrief: false });
    if (sample !== undefined) log?.sample({ iteration: this.trainer.progress.iteration, ...sample });
    return sample?.text;
  }

  /**
   * Closes the reporters, which wait a few seconds for tracking services. Returns the rows that reporters add
   * to the summary.
   */
  async endReports(): Promise<readonly SummaryRow[]> {
    const outcome: RunOutcome = this.#result === undefined ? 'failed' : describeOutcome(this.#result.reason);
    return await this.reporters.close(outcome);
  }

  /**
   * Closes reporters and data files, frees memory, releases the directory of checkpoints, and leaves the job.
   */
  async close(): Promise<void> {
    const { batches, closeData, part, optimizer, save, ownWorld } = this.#parts;
    await closeAll([
      () => this.endReports(),
      () => batches.close(),
      () => closeData?.(),
      () => part.dispose(),
      () => optimizer.dispose(),
      () => save.owner.release(),
      () => ownWorld?.close(),
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async *#steps(
    reporters: readonly TrainingReporter[],
  ): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    const say = (text: string): void => {
      for (const reporter of this.reporters.all) reporter.message?.(text);
    };
    const signals = new StopSignals((signal) =>
      say(`${signal}: finishing this step, then saving; a second signal ends at once`),
    );
    try {
      const save = await this.#saveSettings();
      const result = yield* trainingSteps({ ...this.#parts, reporters, signals, save });
      rememberStopSignal(result.reason);
      await this.#parts.onEnd?.(result);
      return result;
    } finally {
      signals.close();
    }
  }

  async #saveSettings(): Promise<SaveSettings | undefined> {
    const { directory, owner, loaded, isStepChosen, configurationFor, ...settings } = this.#parts.save;
    if (directory === undefined) return undefined;
    const { processes, tokenizer } = this;
    // only the first rank lists and opens checkpoints, and copies files
    const ofFirst = await processes.together(async () => {
      if (!processes.isFirst) return { configuration: {} };
      return {
        run: loaded === undefined ? undefined : await continuedRun(loaded, { isStepChosen }),
        configuration: await configurationFor(directory),
        prepareDirectory: await keepTokenizer(directory, tokenizer),
      };
    });
    return { ...settings, directory, owned: owner.owned, loadedFrom: loaded?.path, ...ofFirst };
  }
}

/** Returns how the run ended, in the terms of tracking services. */
function describeOutcome(reason: TrainingResult['reason']): RunOutcome {
  return reason === 'done' || reason === 'early-stopping' ? 'finished' : 'stopped';
}

import type { Checkpoint, JsonObject, LogicalTensor } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import { keepTokenizer } from '@mtl/configuration/internal';
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
import { finishSteps, rememberStopSignal, StopSignals, trainingSteps } from '@mtl/trainer/internal';
import { closeAll } from '../close-all.js';
import { reportersOption } from '../option-checks.js';
import type { ModelChunk, RankModel } from '../parts/models/model-part.js';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';
import type { ModelSample } from '../parts/samples/sample-continuation.js';
import type { ThreadChoice } from '../parts/threads/threads-of-run.js';
import { continuedRun, type SaveDirectory } from '../save-directory.js';
import type { RunLog } from './run-log.js';
import type { RunReporters } from './training-reporters.js';

/** The directory and interval of saves, and the configuration in each checkpoint. */
interface TrainingSaveOptions extends Pick<SaveSettings, 'interval' | 'keepLast' | 'inBackground'> {
  /** Undefined: nothing is saved. */
  readonly directory: string | undefined;
  /** The owner of the directory, or of a parent directory. */
  readonly owner: SaveDirectory;
  /** The checkpoint that training continues from; undefined for a new run. */
  readonly loaded: Checkpoint | undefined;
  /** True if --ckpt-step chose that checkpoint. */
  readonly isStepChosen?: boolean;
  /** Returns the configuration of the run that each checkpoint stores; rank 0 calls it. */
  readonly configurationFor: (directory: string) => Promise<JsonObject>;
}

/** The parts of a training run, once everything is open. */
interface TrainingComponents<Batch, Configuration, Reporters extends RunReporters>
  extends Pick<RunTrainingOptions<Batch>, 'evaluation' | 'resumedFrom' | 'exitInterval' | 'deadlineMs'> {
  readonly configuration: Configuration;
  readonly processes: TrainingProcesses;
  /** The architecture. */
  readonly model: TransformerConfiguration;
  readonly tokenizer: Tokenizer;
  /** The threads of this rank's kernels, the same from its first step to its last. */
  readonly threads: ThreadChoice;
  /** This rank's part of the model. */
  readonly part: RankModel<Batch, ModelChunk<Batch>>;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly trainer: Trainer<Batch>;
  /** The micro-batches that the trainer reads. */
  readonly batches: { close(): Promise<void> };
  /** Closes the files of the datasets. Default: there are none. */
  readonly closeData?: () => void;
  readonly save: TrainingSaveOptions;
  /** Log of rank 0, if the run has a folder. */
  readonly log: RunLog | undefined;
  readonly reporters: Reporters;
  /**
   * Uses the results of the run, on all ranks, before a signal ends the process again. Default: no action.
   */
  readonly onEnd?: (result: TrainingResult) => Promise<void>;
  /**
   * Returns a sample of what the model has learned. All ranks call it; the ranks of the first replica get the
   * sample. Default: no sample.
   */
  readonly show?: (how: { readonly isBrief: boolean }) => Promise<ModelSample | undefined>;
  /** The world that `train` joined; it is released with the run and aborts after an error. */
  readonly ownWorld?: World | undefined;
}

/** Further reporters of the steps of a run, on this rank. */
interface RunTrainingReporters {
  readonly reporters?: readonly TrainingReporter[];
}

const checks: OptionChecks<RunTrainingReporters> = { reporters: reportersOption };

/**
 * A training run of any kind that is ready to run: pretraining and learning from conversations
 * (`openTraining`), fine-tuning for a task (`fineTune`). With several processes each process has an instance
 * and calls its methods; rank 0 reports.
 *
 * ```ts
 * for await (const { iteration, loss } of training) console.log(iteration, loss);
 * ```
 *
 * @typeParam Batch its micro-batches
 * @typeParam Configuration its configuration
 * @typeParam Reporters its reporters
 */
export class Training<Batch, Configuration, Reporters extends RunReporters = RunReporters>
  implements AsyncIterable<StepMetrics>, AsyncDisposable
{
  readonly #parts: TrainingComponents<Batch, Configuration, Reporters>;
  #result: TrainingResult | undefined;
  #hasBegun = false;

  /** Takes ownership of the parts: the run closes them. */
  constructor(parts: TrainingComponents<Batch, Configuration, Reporters>) {
    this.#parts = parts;
  }

  /** The configuration of the run; for a resumed run, with the settings that its checkpoint keeps. */
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

  /** The result of the run; undefined before the end, and after an error. */
  get result(): TrainingResult | undefined {
    return this.#result;
  }

  /** Returns the parts of the weights that this rank holds. */
  weights(): readonly LogicalTensor[] {
    return weightTensors(this.optimizer);
  }

  /**
   * Trains to the end, or until a signal; saves and evaluates as the configuration asks. Yields each step
   * after its evaluation and save, and returns how the run ended; its final state is saved by then. All ranks
   * go through all steps, or leave after the same step.
   *
   * @throws ConfigurationError `MTL_OPTION`; UsageError `MTL_RUN_OVER` if the steps have been run, or left,
   *   before
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
    // stays so if a consumer leaves the loop
    let end: Pick<TrainingResult, 'reason'> | { readonly reason: 'left' } | undefined = { reason: 'left' };
    try {
      const result = yield* this.#steps([...this.reporters.all, ...reporters]);
      this.#result = result;
      end = result;
      return result;
    } catch (error) {
      end = undefined;
      log?.fail(error, this.trainer.progress);
      // the other processes end with this error instead of waiting for this one
      ownWorld?.abort(error as Error);
      throw error;
    } finally {
      if (end !== undefined) log?.end({ reason: end.reason, iteration: this.trainer.progress.iteration });
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
    return this.steps();
  }

  /** Goes through all `steps`, and returns how the run ended. */
  async run(options: RunTrainingReporters = {}): Promise<TrainingResult> {
    return await finishSteps(this.steps(options));
  }

  /**
   * Returns a sample of what the model has learned, as text for the end of a run and for samples.jsonl in the
   * run folder.
   */
  async show(): Promise<string | undefined> {
    const { log, show } = this.#parts;
    const sample = await show?.({ isBrief: false });
    if (sample !== undefined) log?.sample({ iteration: this.trainer.progress.iteration, ...sample });
    return sample?.text;
  }

  /**
   * Ends reports, and waits a few seconds for services. Returns the facts that reports add to the summary.
   */
  async endReports(): Promise<readonly SummaryRow[]> {
    const outcome: RunOutcome = this.#result === undefined ? 'failed' : describeOutcome(this.#result.reason);
    return await this.reporters.close(outcome);
  }

  /** Ends reports, closes data files, frees memory, releases the directory, and leaves the job. */
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
    // the first rank lists and opens checkpoints, and copies files
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

/** Returns the information about the end of a run for tracking services. */
function describeOutcome(reason: TrainingResult['reason']): RunOutcome {
  return reason === 'done' || reason === 'early-stopping' ? 'finished' : 'stopped';
}

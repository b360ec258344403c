import { TrainingError } from '@mtl/errors';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import type {
  StepMetrics,
  TrainingEvent,
  TrainingReporter,
  ValidationLoss,
} from './metrics/training-reports.js';
import type { StopSignals } from './stop-signals.js';
import { stopSignalNames } from './stop-signals.js';
import type { EvaluatedLoss, Trainer } from './trainer.js';
import { type SaveSettings, TrainingSaves } from './training-saves.js';
import { restoreCheckpoint } from './training-state.js';
import { UnchangedWeights } from './unchanged-weights.js';

interface EvaluationSettings<Batch> {
  /** Steps between evaluations. */
  readonly interval: number;
  /** The number of micro-batches on each data-parallel rank. */
  readonly numMicroBatches: number;
  /** Opens the evaluation data at its start, so that every evaluation reads the same samples. */
  readonly open: () => AsyncIterator<Batch>;
  /** Called on all ranks after each evaluation. Default: no action. */
  readonly afterwards?: () => Promise<void>;
}

/** An evaluation that the caller implements, such as the accuracy of predictions. */
interface OwnEvaluation {
  /** Steps between evaluations. */
  readonly interval: number;
  /** Runs the evaluation. Called on all ranks. The reporters get the returned losses. */
  readonly run: () => Promise<EvaluatedLoss>;
}

export interface RunTrainingOptions<Batch> {
  readonly trainer: Trainer<Batch>;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly reporters: readonly TrainingReporter[];
  readonly save?: SaveSettings | undefined;
  /**
   * The checkpoint from which the run was resumed; undefined if it was not resumed. A roll-back uses this
   * checkpoint if the run itself has not saved a checkpoint yet.
   */
  readonly resumedFrom?: string | undefined;
  readonly evaluation?: EvaluationSettings<Batch> | OwnEvaluation | undefined;
  /** The run ends after the first step whose number is a multiple of this value. */
  readonly exitInterval?: number | undefined;
  /**
   * A time in milliseconds since the start of the process (`performance.now()`). The run ends after the step
   * in which any rank reaches this time, or one step later if the next step has already begun (see
   * `Trainer.steps`).
   */
  readonly deadlineMs?: number | undefined;
  readonly signals?: Pick<StopSignals, 'received'> | undefined;
}

/** The reasons for which a run ends, unless an extension of the caller ends it. */
type EndReason = 'done' | 'early-stopping' | 'exit-interval' | 'deadline' | 'data' | NodeJS.Signals;

export interface TrainingResult {
  /**
   * The reason for the run's end:
   * - `done`: the last iteration was reached
   * - `early-stopping`: the validation loss has stopped falling
   * - `exit-interval`, `deadline` or a signal: the run can be resumed
   * - `data`: no data was left
   * - any other string: an extension ended the run for this reason
   */
  readonly reason: EndReason | (string & {});
  readonly checkpointPath: string | undefined;
  /** True if the run had steps but all were skipped, so that the weights are still the initial weights. */
  readonly isUnchanged?: true;
}

/**
 * Trains to the end, with evaluation, checkpoints and reports. SIGINT, SIGTERM and SIGHUP end the run after
 * the current step, with a checkpoint. Yields each step after its evaluation, save and reports, and returns
 * the reason for the run's end. At the end, the final state is saved, and evaluated if there is evaluation
 * data. If the consumer leaves the loop early, the final state is neither saved nor evaluated. If no step of
 * the run has changed the weights, they are not saved. All ranks run the same steps, and a signal to any rank
 * stops all ranks after the same step.
 *
 * @throws TrainingError `MTL_NO_UPDATE` at the end of a run whose steps were all skipped, unless the run was
 *   interrupted
 */
export async function* trainingSteps<Batch>(
  options: RunTrainingOptions<Batch>,
): AsyncGenerator<StepMetrics, TrainingResult, undefined> {
  const { trainer, save, evaluation, exitInterval } = options;
  const { extensions } = trainer;
  const saves = save && new TrainingSaves({ ...options, save });
  const unchanged = new UnchangedWeights(options.lossScaler);
  let hasBegun = false;
  let evaluated = -1;
  let ending: TrainingResult['reason'] | undefined;

  const evaluateNow = async (): Promise<void> => {
    if (evaluation === undefined || evaluated === trainer.progress.iteration) return;
    evaluated = trainer.progress.iteration;
    extensions.afterEvaluation(await evaluateTraining(options, evaluation));
  };

  /** Runs a task between steps, while the extensions are paused. */
  const aside = async (task: () => Promise<void>): Promise<void> => {
    extensions.pause();
    await task();
    extensions.resume();
  };

  let isLeft = true;
  try {
    extensions.resume();
    // an extension, such as early stopping, may have ended the run before the loaded checkpoint was saved
    ending = extensions.endsRun;
    const steps = trainer.steps({
      // evaluations, saves and the end of a run need the weights exactly as they are after this step
      waitsAfter: (iteration) =>
        [evaluation?.interval, save?.interval, exitInterval].some((interval) =>
          isMultiple(iteration, interval),
        ),
      isOver: () => ending !== undefined,
      agreement: {
        own: () => listAgreedNumbers(options, saves, { hasBegun }),
        agreed: async (numRanks) => {
          const { stop, isWritten } = agreedRest(numRanks);
          if (isWritten) await saves?.finish();
          // the step that is now running still ends before the run stops
          ending ??= stop;
        },
      },
    });
    for await (const metrics of steps) {
      hasBegun = true;
      for (const reporter of options.reporters) reporter.step?.(metrics);
      unchanged.step(metrics);
      report(options, metrics.events);
      const { iteration } = metrics;
      if (metrics.rollsBack === true) {
        await aside(async () => report(options, [await rollBack(options, saves)]));
      }
      if (isMultiple(iteration, evaluation?.interval)) await aside(evaluateNow);
      if (isMultiple(iteration, save?.interval) && !unchanged.isAll)
        await aside(async () => await saves?.atInterval());
      ending ??= extensions.endsRun;
      if (isMultiple(iteration, exitInterval)) ending ??= 'exit-interval';
      yield metrics;
    }
    isLeft = false;
  } catch (error) {
    isLeft = false;
    // if all ranks throw the same error, or this rank runs alone, the checkpoint in progress can still be
    // saved
    const isEverywhere = options.optimizer.groups.world === undefined || error instanceof TrainingError;
    if (isEverywhere) await saves?.finishAfterError();
    throw error;
  } finally {
    // all consumers have left the loop, so the checkpoint in progress can still be saved on all ranks
    if (isLeft) await saves?.finishAfterError();
  }
  report(options, extensions.end(trainer.progress.iteration));
  const isDone = ending === undefined && trainer.isDone;
  if (unchanged.isAll) return endUnchanged(options, { error: unchanged.error(), ending });
  if (isDone) await evaluateNow();
  await saves?.atEnd();
  return { reason: ending ?? (isDone ? 'done' : 'data'), checkpointPath: saves?.newestPath };
}

/** Runs all steps of `trainingSteps`, and returns how the run ended. */
export async function runTraining<Batch>(options: RunTrainingOptions<Batch>): Promise<TrainingResult> {
  return await finishSteps(trainingSteps(options));
}

/** Runs the remaining steps, and returns their final value. */
export async function finishSteps<End>(steps: AsyncIterator<StepMetrics, End>): Promise<End> {
  for (;;) {
    const next = await steps.next();
    if (next.done === true) return next.value;
  }
}

/**
 * Ends a run with unchanged weights, without saving. Returns the result if the run was interrupted. Otherwise
 * throws `error`.
 */
function endUnchanged<Batch>(
  { reporters, trainer }: RunTrainingOptions<Batch>,
  { error, ending }: { readonly error: TrainingError; readonly ending: TrainingResult['reason'] | undefined },
): TrainingResult {
  if (ending === undefined || ending === trainer.extensions.endsRun) throw error;
  for (const reporter of reporters)
    reporter.message?.(`  note: ${error.message}; nothing is saved; ${error.remedy}`);
  return { reason: ending, checkpointPath: undefined, isUnchanged: true };
}

const isMultiple = (iteration: number, interval: number | undefined): boolean =>
  interval !== undefined && iteration % interval === 0;

/**
 * Restores the newest checkpoint, except for the counts of steps and samples. Training continues with the
 * next samples.
 */
async function rollBack<Batch>(
  { trainer, optimizer, lossScaler, resumedFrom }: RunTrainingOptions<Batch>,
  saves: TrainingSaves | undefined,
): Promise<TrainingEvent> {
  await saves?.finish();
  const { iteration } = trainer.progress;
  const path = saves?.newestPath ?? resumedFrom;
  if (path === undefined) {
    const text = `no checkpoint yet to roll back to at iteration ${iteration}: only its update was skipped`;
    return { type: 'roll_back', iteration, text, fields: { checkpoint: null } };
  }
  const { iteration: restored } = await restoreCheckpoint({ path, optimizer, lossScaler });
  return {
    type: 'roll_back',
    iteration,
    text: `rolled back after iteration ${iteration} to the weights of iteration ${restored} (${path}); training goes on with the samples that follow`,
    fields: { checkpoint: path, checkpoint_iteration: restored },
  };
}

function report<Batch>(
  { reporters }: RunTrainingOptions<Batch>,
  events: readonly TrainingEvent[] = [],
): void {
  for (const event of events) for (const reporter of reporters) reporter.event?.(event);
}

const stopReasons = [...stopSignalNames, 'deadline'] as const;

/**
 * Returns this rank's values for the agreement before a step: 1 if this rank is still writing a checkpoint,
 * otherwise 0; and for each reason in `stopReasons`, 1 if this rank wants to stop the run for this reason,
 * otherwise 0. Before the first step, no rank wants to stop, because a run always does at least one step.
 */
function listAgreedNumbers<Batch>(
  { signals, deadlineMs = Number.POSITIVE_INFINITY }: RunTrainingOptions<Batch>,
  saves: TrainingSaves | undefined,
  { hasBegun }: { readonly hasBegun: boolean },
): readonly number[] {
  const isLate = performance.now() >= deadlineMs;
  const asks = stopReasons.map((reason) => (reason === 'deadline' ? isLate : signals?.received === reason));
  return [saves?.isWriting ?? false, ...asks.map((asked) => asked && hasBegun)].map(Number);
}

/**
 * Returns the common decision of all ranks, given the sums of `listAgreedNumbers` over all ranks. Each sum is
 * the number of ranks that have a 1 at this position.
 */
function agreedRest([numWriting, ...numAsking]: readonly number[]): {
  readonly stop: (typeof stopReasons)[number] | undefined;
  /** True if all ranks have written their slices of the checkpoint in progress. */
  readonly isWritten: boolean;
} {
  return { stop: stopReasons.find((_, index) => numAsking[index]! > 0), isWritten: numWriting === 0 };
}

async function evaluateTraining<Batch>(
  { trainer, reporters }: RunTrainingOptions<Batch>,
  evaluation: EvaluationSettings<Batch> | OwnEvaluation,
): Promise<ValidationLoss> {
  const evaluated = 'run' in evaluation ? await evaluation.run() : await evaluateLoss(trainer, evaluation);
  const { iteration, consumedSamples } = trainer.progress;
  for (const reporter of reporters) reporter.validation?.({ iteration, consumedSamples, ...evaluated });
  if ('afterwards' in evaluation) await evaluation.afterwards?.();
  return { iteration, ...evaluated };
}

async function evaluateLoss<Batch>(
  trainer: Trainer<Batch>,
  { open, numMicroBatches }: EvaluationSettings<Batch>,
): Promise<EvaluatedLoss> {
  const batches = open();
  try {
    return await trainer.evaluate(batches, numMicroBatches);
  } finally {
    await batches.return?.();
  }
}

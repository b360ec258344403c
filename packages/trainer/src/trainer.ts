import { nextTurn } from '@mtl/comm/internal';
import { TrainingError } from '@mtl/errors';
import { deviceRange, memoryStatistics, supportsMarks } from '@mtl/kernels';
import { Extensions } from './extensions/extensions.js';
import type {
  StepMetrics,
  TrainingEvent,
  TrainingProgress,
  ValidationLoss,
} from './metrics/training-reports.js';
import { decideStep } from './steps/decided-step.js';
import { LateStep } from './steps/late-step.js';
import { checkedCounts, checkLossKinds, reportedLosses, tokenLosses } from './steps/loss-kinds.js';
import { Ranks } from './steps/ranks.js';
import type { EnqueuedStep, RunningStep, StepOutcome } from './steps/running-step.js';
import { namingWrongIndices, refuseStepUnderWay } from './steps/step-errors.js';
import { collectParts, ownCounts, sumsOfParts } from './steps/step-losses.js';
import { StepPasses } from './steps/step-passes.js';
import {
  type CompleteTrainerOptions,
  completeTrainerOptions,
  type StepAgreement,
  type StepsOptions,
  stepRates,
  type TrainerOptions,
} from './trainer-options.js';

/** The losses of an evaluation. */
export type EvaluatedLoss = Omit<ValidationLoss, 'iteration'>;

/** Choices about the start of the next step (see also `StepsOptions`). */
interface StartOptions extends Required<Pick<StepsOptions, 'isOver' | 'agreement'>> {
  /** True if the results of the step are read only after the next step has been enqueued. */
  readonly isLate: boolean;
}

/** A step that has begun, and whose results the caller does not have yet. */
interface StartedStep {
  /** The step, if its results are read late. */
  readonly late?: LateStep;
  /** Waits for the step's results, records them, and returns the step's metrics. */
  finish(): StepMetrics;
}

/** The agreement for steps without further numbers. */
const nothingElse: StepAgreement = { own: () => [], agreed: async () => {} };

/** Takes the next `count` values from an iterator, or fewer if the iterator ends. */
async function take<Value>(from: AsyncIterator<Value>, count: number): Promise<Value[]> {
  const taken: Value[] = [];
  while (taken.length < count) {
    const next = await from.next();
    if (next.done === true) break;
    taken.push(next.value);
  }
  return taken;
}

/**
 * The training loop. Each iteration of `for await (const step of trainer)` runs an optimizer step. The
 * trainer does not depend on models: the caller defines the batch, the losses, and the units that count in
 * each loss. Every rank of a training run has its own trainer and micro-batches. Metrics cover the global
 * batch, and are equal on all ranks except for times.
 */
export class Trainer<Batch> implements AsyncIterable<StepMetrics> {
  /** The ranks of the training run. */
  readonly ranks: Ranks;
  /** The extensions of the loop. */
  readonly extensions: Extensions;
  readonly #options: CompleteTrainerOptions<Batch>;
  readonly #passes: StepPasses<Batch>;
  /** The progress after the last step whose results are known. */
  #progress: TrainingProgress;
  /** The progress after the last step that has begun, even if its results are not yet known. */
  #started: TrainingProgress;
  /** A step without known results. */
  #underWay: StartedStep | undefined;
  #dataWaitMs = 0;

  /**
   * @throws UsageError `MTL_LOSS_KINDS` for an empty list of losses, two losses with the same name, or a
   *   weight that is 0 or not finite; `MTL_EXTENSION` for two extensions with the same name
   */
  constructor(given: TrainerOptions<Batch>) {
    const options = completeTrainerOptions(given);
    this.#options = options;
    this.extensions = new Extensions(options.extensions);
    this.ranks = new Ranks({ groups: options.optimizer.groups });
    checkLossKinds(options.losses);
    this.#passes = new StepPasses({ options, extensions: this.extensions, ranks: this.ranks });
    this.#progress = options.progress ?? { iteration: 0, consumedSamples: 0, consumedTokens: 0 };
    this.#started = this.#progress;
  }

  /** The progress after the last step that was yielded, or that is about to be yielded. */
  get progress(): TrainingProgress {
    return this.#progress;
  }

  /**
   * True if a step has begun and its results are not yet known. Weights and optimizer are then ahead of
   * `progress` and must not be saved or evaluated. The value stays true after an error in the loop, or after
   * the consumer has left the loop.
   */
  get isStepUnderWay(): boolean {
    return this.#underWay !== undefined;
  }

  /** True if the last iteration is done. */
  get isDone(): boolean {
    return this.#progress.iteration >= this.#options.trainIterations;
  }

  /** The total time for which steps have waited for data, in milliseconds. */
  get dataWaitMs(): number {
    return this.#dataWaitMs;
  }

  /**
   * Runs steps until the last iteration, or until the consumer leaves the loop. When a step is yielded, it
   * has ended, and the next step has not begun.
   */
  [Symbol.asyncIterator](): AsyncGenerator<StepMetrics, void, undefined> {
    return this.steps();
  }

  /**
   * Runs steps until the last iteration. If the device works while the host continues (see `supportsMarks`),
   * the metrics of a step may be yielded after the next step has been enqueued, so that the device is never
   * idle.
   *
   * A step ends before the next step begins if `waitsAfter` returns true for it, or if it is the last step.
   * This also applies to every step if the loss scale is dynamic, or if an extension decides about updates,
   * reads gradients or waits for steps. A consumer must end the loop through `isOver`. If the consumer leaves
   * the loop in any other way, the results of the running step are lost.
   *
   * @throws UsageError `MTL_STEP_UNDER_WAY` if the consumer has left an earlier loop without `isOver`
   */
  async *steps(options: StepsOptions = {}): AsyncGenerator<StepMetrics, void, undefined> {
    const { waitsAfter = () => true, isOver = () => false, agreement = nothingElse } = options;
    const { trainIterations } = this.#options;
    refuseStepUnderWay('steps', this);
    const isLate = options.waitsAfter !== undefined && this.#canReadLate();
    try {
      while (this.#started.iteration < trainIterations && !isOver()) {
        const started = yield* this.#startNext({ isLate, isOver, agreement });
        const earlier = this.#underWay;
        this.#underWay = started;
        if (earlier !== undefined) yield earlier.finish();
        if (started === undefined) return;
        const { iteration } = this.#started;
        const waits = started.late === undefined || iteration === trainIterations || waitsAfter(iteration);
        if (waits) yield this.#finishUnderWay();
        // signals, timers and writers run between steps
        await nextTurn();
      }
      if (this.#underWay !== undefined) yield this.#finishUnderWay();
    } finally {
      this.#underWay?.late?.dispose();
    }
  }

  /**
   * Returns the mean losses over the next micro-batches of `batches`, without changing parameters. Each
   * data-parallel rank evaluates its own micro-batches. `numMicroBatches` must be the same on all ranks.
   */
  async evaluate(batches: AsyncIterator<Batch>, numMicroBatches: number): Promise<EvaluatedLoss> {
    refuseStepUnderWay('an evaluation', this);
    const { pipeline, losses, microBatches } = this.#options;
    // the number of micro-batches after the batch size's ramp-up; schedules accept this number, and the
    // number of micro-batches in an evaluation is a multiple of it
    const most = microBatches.countsOfMicroBatches().at(-1)!;
    const sums: number[][] = losses.map(() => []);
    const counts = losses.map(() => 0);
    let done = 0;
    while (done < numMicroBatches) {
      const some = await take(batches, Math.min(most, numMicroBatches - done));
      if (some.length === 0) break;
      using own = this.#passes.makeLosses(some);
      const read = namingWrongIndices(`evaluation after iteration ${this.#progress.iteration}`, () => {
        pipeline.evaluate({
          batches: some,
          lossFactors: Object.fromEntries(losses.map(({ name }) => [name, 1])),
          onLoss: (loss, microBatch) => own.add(loss, microBatch),
        });
        return own.read();
      });
      own.sumsOfMicroBatches(read).forEach((values, kind) => void sums[kind]!.push(...values));
      this.#countLosses(some).forEach((count, kind) => {
        counts[kind]! += count;
      });
      done += some.length;
    }
    const parts = collectParts(sums, { losses, ranks: this.ranks, numMicroBatches: done });
    const agreed = this.ranks.sum([...counts, ...parts]);
    const whole = checkedCounts(agreed, { ...this.#options, who: 'the evaluation data hold' });
    const means = sumsOfParts(agreed.slice(losses.length), this.#options).map(
      (sum, kind) => sum / whole[kind]!,
    );
    return { ...reportedLosses(losses, means), ...tokenLosses(losses) };
  }

  /**
   * For each kind of loss, returns this rank's contribution to the number of counted units in the
   * micro-batches.
   */
  #countLosses(batches: readonly Batch[]): readonly number[] {
    const { losses, pipeline } = this.#options;
    return ownCounts(batches, { losses, ranks: this.ranks, isLastStage: pipeline.isLast });
  }

  /** Returns true if the results of steps can be read late, because the next step does not depend on them. */
  #canReadLate(): boolean {
    const { device, lossScaler } = this.#options;
    return supportsMarks(device) && !this.extensions.wait && !lossScaler.isDynamic;
  }

  /**
   * Begins the next step. Returns undefined at the end of the data. If the next step cannot begin, and fails
   * in the same way on all ranks, the current step is still finished and yielded.
   */
  async *#startNext(how: StartOptions): AsyncGenerator<StepMetrics, StartedStep | undefined, undefined> {
    const { device, optimizer } = this.#options;
    try {
      const name = `step ${this.#started.iteration + 1}`;
      return await deviceRange({ device, name }, () => this.#start(how));
    } catch (error) {
      const isEverywhere = optimizer.groups.world === undefined || error instanceof TrainingError;
      if (isEverywhere && this.#underWay !== undefined) yield this.#finishUnderWay();
      throw error;
    }
  }

  #finishUnderWay(): StepMetrics {
    const step = this.#underWay!;
    this.#underWay = undefined;
    return step.finish();
  }

  async #start({ isLate, isOver, agreement }: StartOptions): Promise<StartedStep | undefined> {
    const startMs = performance.now();
    const { microBatches, lossScaler } = this.#options;
    const from = this.#started;
    const { consumedSamples } = from;
    const { globalBatchSize, numMicroBatches } = microBatches.at(consumedSamples);
    const batches = await this.#take(numMicroBatches);
    const [numWithoutData, ...agreed] = this.ranks.sum([
      batches === undefined ? 1 : 0,
      ...this.#countLosses(batches ?? []),
      ...agreement.own(),
    ]);
    const numKinds = this.#options.losses.length;
    await agreement.agreed(agreed.slice(numKinds));
    // all ranks end the loop if any rank has no data left
    if (batches === undefined || numWithoutData! > 0 || isOver()) return undefined;
    const step: RunningStep<Batch> = {
      startMs,
      iteration: from.iteration + 1,
      from,
      to: this.#after(from, globalBatchSize),
      batches,
      counts: agreed.slice(0, numKinds),
      globalBatchSize,
      lossScale: lossScaler.scale,
      rates: stepRates(this.#options, consumedSamples),
    };
    const started = await this.#enqueue(step, { isLate });
    this.#started = step.to;
    return started;
  }

  /**
   * Enqueues the passes, and the update unless an extension rejects it. With `isLate`, the results are read
   * later; otherwise they are read immediately.
   */
  async #enqueue(step: RunningStep<Batch>, { isLate }: { readonly isLate: boolean }): Promise<StartedStep> {
    const { iteration, startMs } = step;
    if (this.#options.iterationsToSkip?.has(iteration) === true) {
      const stepMs = performance.now() - startMs;
      return { finish: () => this.#leftOut(step, stepMs) };
    }
    this.extensions.beforeStep(iteration);
    const passes = this.#passes;
    if (isLate) {
      const late = await LateStep.enqueue(step, { passes, earlier: this.#underWay?.late });
      return { late, finish: () => this.#finish(step, late) };
    }
    const computed = await (this.extensions.decide ? decideStep(step, passes) : passes.updateAtOnce(step));
    return { finish: () => this.#finish(step, computed) };
  }

  /** Records a step after its results are known. */
  #finish(step: RunningStep<Batch>, enqueued: EnqueuedStep): StepMetrics {
    const { lossScaler, losses, sequenceLength, flopsPerSample } = this.#options;
    const { globalBatchSize, rates, lossScale } = step;
    try {
      const outcome = enqueued.outcome();
      const { means, verdict, gradientNorm, peakBytes } = outcome;
      this.#progress = step.to;
      const isOverflow = !Number.isFinite(gradientNorm);
      const isAccepted = verdict.action === 'update';
      if (isOverflow && isAccepted && !this.#passes.isForScaler(outcome))
        throw this.#divergence(step, outcome);
      lossScaler.update(isOverflow);
      const stepMs = enqueued.milliseconds();
      return this.#told(
        {
          ...step.to,
          globalBatchSize,
          ...reportedLosses(losses, means),
          gradNorm: gradientNorm,
          ...rates,
          lossScale,
          skipped: isOverflow || !isAccepted,
          ...(verdict.action === 'roll-back' ? { rollsBack: true } : {}),
          stepMs,
          tokensPerSecond: (globalBatchSize * sequenceLength * 1000) / stepMs,
          modelTflops: (flopsPerSample * globalBatchSize) / stepMs / 1e9,
          peakBytes,
        },
        verdict.events,
      );
    } finally {
      enqueued.dispose();
    }
  }

  /** Informs the extensions that the step is over. Returns the metrics with all events of the step. */
  #told(metrics: StepMetrics, judged: readonly TrainingEvent[] = []): StepMetrics {
    const events = [...judged, ...this.extensions.afterStep(metrics)];
    return events.length === 0 ? metrics : { ...metrics, events };
  }

  #after(progress: TrainingProgress, globalBatchSize: number): TrainingProgress {
    const { iteration, consumedSamples, consumedTokens } = progress;
    return {
      iteration: iteration + 1,
      consumedSamples: consumedSamples + globalBatchSize,
      consumedTokens: consumedTokens + globalBatchSize * this.#options.sequenceLength,
    };
  }

  /**
   * Returns the metrics of a step that consumes samples without training on them. It has no loss, no
   * gradients, and a learning rate of 0.
   */
  #leftOut(step: RunningStep<Batch>, stepMs: number): StepMetrics {
    const { losses, device } = this.#options;
    const { globalBatchSize, lossScale, rates } = step;
    this.#progress = step.to;
    return this.#told({
      ...step.to,
      globalBatchSize,
      lossScale,
      ...rates,
      stepMs,
      ...reportedLosses(
        losses,
        losses.map(() => Number.NaN),
      ),
      gradNorm: Number.NaN,
      skipped: true,
      isLeftOut: true,
      tokensPerSecond: 0,
      modelTflops: 0,
      peakBytes: memoryStatistics(device).peakBytes,
    });
  }

  async #take(count: number): Promise<Batch[] | undefined> {
    const start = performance.now();
    const taken = await take(this.#options.batches, count);
    this.#dataWaitMs += performance.now() - start;
    return taken.length < count ? undefined : taken;
  }

  #divergence(
    { iteration, rates: { learningRate } }: RunningStep<Batch>,
    { loss, gradientNorm }: Pick<StepOutcome, 'loss' | 'gradientNorm'>,
  ): TrainingError {
    // a step that is still running may already have changed the parameters
    const parameters =
      this.#underWay === undefined ? 'the parameters were left as they were' : 'it changed no parameter';
    return new TrainingError(
      'MTL_NOT_FINITE',
      `iteration ${iteration}: loss ${loss}, gradient norm ${gradientNorm}; ${parameters}`,
      {
        remedy:
          `resume from the newest checkpoint with a lower --lr (it was ${Number(learningRate.toPrecision(4))}), more warm-up, or --clip-grad; ` +
          'where the same step fails again, from an older one (--ckpt-step)',
        details: { iteration, loss, gradientNorm },
      },
    );
  }
}

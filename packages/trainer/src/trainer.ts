import { TrainingError } from '@mtl/errors';
import { deviceRange, memoryStatistics, supportsMarks, Tensor } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';
import type { LossFactors } from '@mtl/pipeline';
import { Extensions } from './extensions/extensions.js';
import type { ComputedStep, StepVerdict } from './extensions/trainer-extension.js';
import type {
  StepMetrics,
  TrainingEvent,
  TrainingProgress,
  ValidationLoss,
} from './metrics/training-reports.js';
import { DeviceNumbers, LateNumbers } from './steps/device-numbers.js';
import { LossSums, LossTotals } from './steps/loss-totals.js';
import { Ranks } from './steps/ranks.js';
import {
  findingWrongIndices,
  namingWrongIndices,
  refuseStepUnderWay,
  wrongIndexOfStep,
} from './steps/step-errors.js';
import {
  type CompleteTrainerOptions,
  completeTrainerOptions,
  type StepRates,
  stepRates,
  type TrainerOptions,
} from './trainer-options.js';

/** The losses of an evaluation. */
export type EvaluatedLoss = Omit<ValidationLoss, 'iteration'>;

/** Choices of a caller about the steps of a trainer. They must be equal on all ranks. */
export interface StepsOptions {
  /**
   * Tells whether a step is to be over, with its metrics yielded, before the next one begins: needed if the
   * caller's next decision depends on the state of this step. By configuration and number of the step alone.
   * Default: always.
   */
  readonly waitsAfter?: (iteration: number) => boolean;
  /** Asked before each step: whether none is to begin any more. One that has begun ends, and is yielded. */
  readonly isOver?: () => boolean;
  /**
   * Further numbers that the ranks tell each other before each step. `isOver` is asked after it. Default:
   * nothing.
   */
  readonly agreement?: StepAgreement;
}

/** Numbers that ranks tell each other before a step, by the collective that the step needs anyway. */
export interface StepAgreement {
  /** Returns the numbers of this rank; on all ranks as many. */
  own(): readonly number[];
  /** Gets their sums over all ranks, on all of them; awaited before the step begins. */
  agreed(sums: readonly number[]): Promise<void>;
}

/** A step whose batches are here. */
interface RunningStep<Batch> {
  readonly startMs: number;
  readonly iteration: number;
  /** Progress before the step, and after it. */
  readonly from: TrainingProgress;
  readonly to: TrainingProgress;
  readonly batches: readonly Batch[];
  /** The counts of each kind of loss in the global batch, not yet checked. */
  readonly counts: readonly number[];
  readonly globalBatchSize: number;
  readonly lossScale: number;
  readonly rates: StepRates;
}

/** Results of a step, and the decision about it. */
interface StepOutcome {
  /** The mean of each kind of loss. */
  readonly means: readonly number[];
  /** Their total, which decides about the step: what its gradients are of. */
  readonly loss: number;
  readonly gradientNorm: number;
  readonly peakBytes: number;
  readonly verdict: StepVerdict;
}

/** Results of all ranks, from the numbers that a step leaves on devices. */
interface AgreedNumbers extends Pick<StepOutcome, 'means' | 'loss' | 'peakBytes'> {
  /** The numbers of this rank. */
  readonly read: readonly number[];
}

/** Choices about the start of the next step, see `StepsOptions`. */
interface StartOptions extends Required<Pick<StepsOptions, 'isOver' | 'agreement'>> {
  /** True if its results are read when the next step is enqueued. */
  readonly isLate: boolean;
}

/** A step that is enqueued. */
interface StartedStep {
  /** The numbers that are read late, if they are. */
  readonly late?: LateNumbers;
  /** Waits for its results, takes note of them, and returns what is known. */
  finish(): StepMetrics;
}

/** The verdict of a step that no extension refuses. */
const accepted: StepVerdict = { action: 'update', events: [] };

/** The agreement of steps before which nothing else is agreed on. */
const nothingElse: StepAgreement = { own: () => [], agreed: async () => {} };

/** The next of an iterator, fewer at its end. */
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
 * The training loop: `for await (const step of trainer)` runs one optimizer step per turn. It knows pipelines
 * and batches, not models: the caller defines what a batch is, which losses exist and what counts in them.
 * Every rank of a training run has one, with its own micro-batches; metrics are those of the global batch and
 * the same on all of them but for times.
 */
export class Trainer<Batch> implements AsyncIterable<StepMetrics> {
  /** The ranks of the training run. */
  readonly ranks: Ranks;
  /** The extensions of the loop. */
  readonly extensions: Extensions;
  readonly #options: CompleteTrainerOptions<Batch>;
  readonly #totals: LossTotals<Batch>;
  /** Progress after the last step whose results are known. */
  #progress: TrainingProgress;
  /** Progress after the last step that has begun. */
  #started: TrainingProgress;
  /** A step whose results are not known yet. */
  #underWay: StartedStep | undefined;
  #dataWaitMs = 0;

  /**
   * @throws UsageError `MTL_LOSS_KINDS` for no losses, several of one name, or a weight that is 0 or not
   *   finite; `MTL_EXTENSION` for extensions of one name
   */
  constructor(given: TrainerOptions<Batch>) {
    const options = completeTrainerOptions(given);
    this.#options = options;
    this.extensions = new Extensions(options.extensions);
    this.ranks = new Ranks({ groups: options.optimizer.groups });
    this.#totals = new LossTotals({
      ...options,
      ranks: this.ranks,
      isLastStage: options.pipeline.isLast,
    });
    this.#progress = options.progress ?? { iteration: 0, consumedSamples: 0, consumedTokens: 0 };
    this.#started = this.#progress;
  }

  /** Progress after the last step that was yielded, or that is about to be. */
  get progress(): TrainingProgress {
    return this.#progress;
  }

  /**
   * True if a step has begun whose results are not known: weights and optimizer are ahead of `progress`, and
   * must neither be saved nor evaluated. Stays so where an error ended the steps, or a consumer left them.
   */
  get isStepUnderWay(): boolean {
    return this.#underWay !== undefined;
  }

  /** True if the last iteration is done. */
  get isDone(): boolean {
    return this.#progress.iteration >= this.#options.trainIterations;
  }

  /** Milliseconds that steps have spent waiting for data. */
  get dataWaitMs(): number {
    return this.#dataWaitMs;
  }

  /**
   * Runs steps until the last iteration, or until the consumer leaves the loop. Each is over when it is
   * yielded, and none has begun after it.
   */
  [Symbol.asyncIterator](): AsyncGenerator<StepMetrics, void, undefined> {
    return this.steps();
  }

  /**
   * Runs steps until the last iteration. On a device that works while the host goes on (`supportsMarks`), the
   * metrics of a step may be yielded when the next one is enqueued already: so the device always has work. A
   * step is over before the next one begins where `waitsAfter` says so, after the last one, and in all
   * steps if their loss scale is dynamic, or an extension decides about updates, looks at gradients or waits
   * for steps. A consumer that leaves the loop otherwise than by `isOver` loses the results of a step that is
   * under way.
   *
   * @throws UsageError `MTL_STEP_UNDER_WAY` where an earlier loop was left so
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
        // signals, timers and writers get their turn between steps
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (this.#underWay !== undefined) yield this.#finishUnderWay();
    } finally {
      this.#underWay?.late?.dispose();
    }
  }

  /**
   * Mean losses over the next micro-batches of an iterator, without touching parameters. Data-parallel ranks
   * evaluate their own micro-batches, as many each.
   */
  async evaluate(batches: AsyncIterator<Batch>, numMicroBatches: number): Promise<EvaluatedLoss> {
    refuseStepUnderWay('an evaluation', this);
    const { pipeline, losses, microBatches } = this.#options;
    // as many at a time as in a step after ramp-up: a number that schedules fit, and of which evaluations are
    // a multiple
    const most = microBatches.countsOfMicroBatches().at(-1)!;
    const sums: number[][] = losses.map(() => []);
    const counts = losses.map(() => 0);
    let done = 0;
    while (done < numMicroBatches) {
      const some = await take(batches, Math.min(most, numMicroBatches - done));
      if (some.length === 0) break;
      using numbers = this.#deviceNumbers(some.length * losses.length);
      const own = new LossSums(losses, numbers);
      const read = namingWrongIndices(`evaluation after iteration ${this.#progress.iteration}`, () => {
        pipeline.evaluate({
          batches: some,
          lossFactors: Object.fromEntries(losses.map(({ name }) => [name, 1])),
          onLoss: (loss, microBatch) => own.add(loss, microBatch),
        });
        return numbers.read();
      });
      own.ofKinds(read, some.length).forEach((values, kind) => void sums[kind]!.push(...values));
      this.#totals.countsOf(some).forEach((count, kind) => {
        counts[kind]! += count;
      });
      done += some.length;
    }
    const agreed = this.ranks.sum([...counts, ...this.#totals.partsOf(sums, done)]);
    const whole = this.#totals.checkedCounts(agreed, 'the evaluation data hold');
    const means = this.#totals.sums(agreed.slice(losses.length)).map((sum, kind) => sum / whole[kind]!);
    return {
      loss: this.#totals.main(means),
      ...this.#totals.byName(means),
      ...this.#totals.tokenLosses(),
    };
  }

  /** Tells whether the results of steps can be read late: nothing of the next step depends on them. */
  #canReadLate(): boolean {
    const { device, lossScaler } = this.#options;
    return supportsMarks(device) && !this.extensions.wait && !lossScaler.isDynamic;
  }

  /**
   * Begins the next step; undefined at the end of the data. Where that fails on all ranks alike, the step
   * that is under way is still finished and yielded.
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
      ...this.#totals.countsOf(batches ?? []),
      ...agreement.own(),
    ]);
    const numKinds = this.#options.losses.length;
    await agreement.agreed(agreed.slice(numKinds));
    // where one rank has no data left, none can go on
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

  /** Passes and update, unless an extension refuses it. What they found is read at once, or late. */
  async #enqueue(step: RunningStep<Batch>, { isLate }: { readonly isLate: boolean }): Promise<StartedStep> {
    const { device, iterationsToSkip } = this.#options;
    const { iteration, startMs } = step;
    if (iterationsToSkip?.has(iteration) === true) {
      const stepMs = performance.now() - startMs;
      return { finish: () => this.#leftOut(step, stepMs) };
    }
    this.extensions.beforeStep(iteration);
    if (!isLate) {
      const outcome = this.extensions.decide ? await this.#decide(step) : (await this.#update(step))();
      const elapsedMs = (): number => performance.now() - startMs;
      return { finish: () => this.#finish(step, { ...outcome, elapsedMs }) };
    }
    const late = new LateNumbers({ device, startMs, earlier: this.#underWay?.late });
    try {
      const outcomeOf = await this.#update(step, late);
      const finish = (): StepMetrics => {
        using _ = late;
        return this.#finish(step, { ...outcomeOf(), elapsedMs: () => late.milliseconds() });
      };
      return { late, finish };
    } catch (error) {
      late.dispose();
      throw error;
    }
  }

  /** Takes note of a step whose results are here. */
  #finish(
    step: RunningStep<Batch>,
    { means, verdict, ...measured }: StepOutcome & { readonly elapsedMs: () => number },
  ): StepMetrics {
    const { lossScaler, sequenceLength, flopsPerSample } = this.#options;
    const { globalBatchSize, rates, lossScale } = step;
    const { gradientNorm, peakBytes } = measured;
    this.#progress = step.to;
    const isOverflow = !Number.isFinite(gradientNorm);
    const isAccepted = verdict.action === 'update';
    if (isOverflow && isAccepted && !this.#canBackOff()) throw this.#divergence(step, measured);
    lossScaler.update(isOverflow);
    const stepMs = measured.elapsedMs();
    return this.#told(
      {
        ...step.to,
        globalBatchSize,
        loss: this.#totals.main(means),
        ...this.#totals.byName(means),
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
  }

  /** The metrics with the events of the step: extensions learn that it is over. */
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

  /** Returns the metrics of a step that was left out: it has no loss, and neither rate nor gradients. */
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
      loss: Number.NaN,
      ...this.#totals.byName(losses.map(() => Number.NaN)),
      gradNorm: Number.NaN,
      skipped: true,
      isLeftOut: true,
      tokensPerSecond: 0,
      modelTflops: 0,
      peakBytes: memoryStatistics(device).peakBytes,
    });
  }

  /**
   * Passes and update, which detects overflow on the device, whatever the numbers of the step are. Waits for
   * the device once, after all of them have been requested; with `late` only when the caller asks for the
   * outcome, and then for this step alone.
   */
  async #update(step: RunningStep<Batch>, late?: LateNumbers): Promise<() => StepOutcome> {
    const { optimizer, device } = this.#options;
    const { rates, lossScale } = step;
    using numbers = this.#numbersOf(step);
    const sums = await this.#passes(step, numbers);
    const launch = (): void => optimizer.launchStep({ ...rates, lossScale, gradientNorm: numbers.next() });
    if (late === undefined) {
      const found = this.#readNumbers(step, sums, () => {
        launch();
        return numbers.read();
      });
      const outcome = this.#outcomeOf(step, found);
      return () => outcome;
    }
    launch();
    // a step without an update ends the run
    optimizer.assumeUpdate();
    late.end(numbers.startRead());
    const { peakBytes } = memoryStatistics(device);
    return () => {
      const read = findingWrongIndices(() => late.read());
      return this.#outcomeOf(step, this.#agree(step, { sums, read, peakBytes }));
    };
  }

  /** Returns the outcome of an update that is enqueued. */
  #outcomeOf(step: RunningStep<Batch>, { read, ...found }: AgreedNumbers): StepOutcome {
    const { gradientNorm } = this.#options.optimizer.finishStep(read.at(-1)!);
    const measured = { ...found, gradientNorm };
    return { ...measured, verdict: this.#judge(step, measured) };
  }

  /** Passes, and the update where the extensions accept what they found. */
  async #decide(step: RunningStep<Batch>): Promise<StepOutcome> {
    const { optimizer } = this.#options;
    const { rates, lossScale } = step;
    const first = await this.#measure(step);
    const { step: measured, events } = await this.extensions.repeated({
      iteration: step.iteration,
      first,
      isSuspicious: !this.#isForScaler(first) && this.extensions.isSuspicious(first),
      again: async () => {
        optimizer.discardGradients();
        return await this.#measure(step);
      },
      ranks: this.ranks,
    });
    const verdict = this.#judge(step, measured);
    using place = this.#deviceNumbers(1);
    if (verdict.action !== 'update') optimizer.discardGradients();
    else
      this.extensions.span('optimizer', () => {
        optimizer.launchStep({ ...rates, lossScale, gradientNorm: place.next() });
        optimizer.finishStep(measured.gradientNorm);
      });
    return { ...measured, verdict: { ...verdict, events: [...events, ...verdict.events] } };
  }

  /** Passes, and what they found. */
  async #measure(step: RunningStep<Batch>): Promise<Omit<StepOutcome, 'verdict'> & ComputedStep> {
    const { optimizer, device } = this.#options;
    using numbers = this.#numbersOf(step);
    using own = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    if (this.extensions.repeat) optimizer.recordOwnGradients(own);
    const sums = await this.#passes(step, numbers);
    const { read, ...found } = this.#readNumbers(step, sums, () => {
      const squares = optimizer.measureGradients();
      return [...numbers.read(), ...(hasValues(device) ? [own.item(), squares.item()] : [0, 0])];
    });
    const gradientNorm = Math.sqrt(read.at(-1)!) / step.lossScale;
    return { ...found, gradientNorm, own: read.slice(0, -1) };
  }

  /** Tells whether gradients overflowed under a loss scale that can be lowered. */
  #isForScaler({ gradientNorm }: { readonly gradientNorm: number }): boolean {
    return !Number.isFinite(gradientNorm) && this.#canBackOff();
  }

  /** Asks the extensions to decide; an overflow is the loss scaler's to handle while it can. */
  #judge(
    step: RunningStep<Batch>,
    measured: { readonly loss: number; readonly gradientNorm: number },
  ): StepVerdict {
    if (this.#isForScaler(measured)) return accepted;
    const { loss, gradientNorm } = measured;
    const { iteration, globalBatchSize } = step;
    const { consumedSamples } = step.from;
    return this.extensions.judge({ iteration, loss, gradientNorm, consumedSamples, globalBatchSize });
  }

  /** Place for a loss of each kind of each micro-batch, and for the gradient norm. */
  #numbersOf({ batches }: RunningStep<Batch>): DeviceNumbers {
    return this.#deviceNumbers(batches.length * this.#options.losses.length + 1);
  }

  /** Forward and backward; the losses times the scale are left on the device. */
  async #passes(step: RunningStep<Batch>, numbers: DeviceNumbers) {
    const { iteration } = step;
    const scaledSums = new LossSums(this.#options.losses, numbers);
    namingWrongIndices(`iteration ${iteration}`, () => this.#accumulateGradients(step, scaledSums));
    await this.extensions.onGradients(this.#options.optimizer, iteration);
    return scaledSums;
  }

  /** Reads numbers from the device by `body`, and returns what all ranks agree on. */
  #readNumbers(step: RunningStep<Batch>, sums: LossSums, body: () => readonly number[]): AgreedNumbers {
    const read = findingWrongIndices(() => this.extensions.span('optimizer', body));
    return this.#agree(step, { sums, read, peakBytes: memoryStatistics(this.#options.device).peakBytes });
  }

  /**
   * The losses over all ranks, and the peak of any of them. Where the device of one has reported a wrong
   * index, which it does only now, all end, so that none saves.
   */
  #agree(
    { iteration, batches, lossScale }: RunningStep<Batch>,
    own: {
      readonly sums: LossSums;
      readonly read: ReturnType<typeof findingWrongIndices<readonly number[]>>;
      readonly peakBytes: number;
    },
  ): AgreedNumbers {
    const read = 'value' in own.read ? own.read.value : undefined;
    const numMicroBatches = batches.length;
    // where nothing could be read its sums are not numbers: the step ends below, on all ranks
    const sums = own.sums.ofKinds(read ?? [], numMicroBatches);
    const peaks = Array.from({ length: this.ranks.size }, (_, rank) =>
      rank === this.ranks.rank ? own.peakBytes : 0,
    );
    const parts = this.#totals.partsOf(sums, numMicroBatches);
    const [numWrong, ...agreed] = this.ranks.sum([read === undefined ? 1 : 0, ...peaks, ...parts]);
    if (read === undefined || numWrong! > 0) {
      throw wrongIndexOfStep(iteration, 'wrong' in own.read ? own.read.wrong : undefined);
    }
    const means = this.#totals
      .sums(agreed.slice(peaks.length))
      .map((sum, kind) => sum / (lossScale * this.#totals.weightOf(kind)));
    const peakBytes = Math.max(...agreed.slice(0, peaks.length));
    return { read, means, loss: this.#totals.total(means), peakBytes };
  }

  async #take(count: number): Promise<Batch[] | undefined> {
    const start = performance.now();
    const taken = await take(this.#options.batches, count);
    this.#dataWaitMs += performance.now() - start;
    return taken.length < count ? undefined : taken;
  }

  #deviceNumbers(capacity: number): DeviceNumbers {
    return new DeviceNumbers({ device: this.#options.device, capacity });
  }

  /** Forward and backward of this rank's micro-batches, whose losses times the scale go to the sums. */
  #accumulateGradients(step: RunningStep<Batch>, scaledSums: LossSums): void {
    const { pipeline, optimizer, losses } = this.#options;
    const { iteration, batches, lossScale } = step;
    const counts = this.#totals.checkedCounts(step.counts, 'a global batch holds');
    const factors = losses.map((kind, index) => [
      kind.name,
      (lossScale * this.#totals.weightOf(index)) / counts[index]!,
    ]);
    const passes = (): void =>
      pipeline.run({
        batches,
        lossFactors: Object.fromEntries(factors) as LossFactors,
        beforeLastBackward: (chunk) => optimizer.expectLastBackward(chunk),
        onLoss: (loss, microBatch) => scaledSums.add(loss, microBatch),
      });
    try {
      this.extensions.aroundPasses(iteration, passes);
    } catch (error) {
      pipeline.abandon();
      throw error;
    }
  }

  /** Tells whether an overflow is the loss scale's doing: a dynamic one above its minimum. */
  #canBackOff(): boolean {
    const { lossScaler } = this.#options;
    return lossScaler.isDynamic && !lossScaler.isAtMinimum;
  }

  #divergence(
    { iteration, rates: { learningRate } }: RunningStep<Batch>,
    { loss, gradientNorm }: Pick<StepOutcome, 'loss' | 'gradientNorm'>,
  ): TrainingError {
    // a step that is under way may have changed them since
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

import { TrainingError, UsageError } from '@mtl/errors';
import { type Device, deviceRange, hasValues, memoryStatistics, Tensor } from '@mtl/kernels';
import type { LossScaler, ModelOptimizer, NumMicroBatches } from '@mtl/optimizer';
import type { LossFactors, Pipeline, StepListener } from '@mtl/pipeline';
import { DeviceNumbers } from './device-numbers.js';
import type { LossKind } from './loss-kind.js';
import { LossSums } from './loss-sums.js';
import type { StepMetrics } from './metrics/step-metrics.js';
import type { ValidationLoss } from './metrics/validation-loss.js';
import { Ranks } from './ranks.js';
import type { ComputedStep, StepRerun } from './rerun/step-rerun.js';
import type { StepGuard, StepVerdict } from './spikes/step-guard.js';
import { findingWrongIndices, namingWrongIndices, wrongIndexOfStep } from './wrong-index.js';

/** The progress of a training run: what a checkpoint must restore in addition to tensors. */
export interface TrainingProgress {
  readonly iteration: number;
  readonly consumedSamples: number;
  readonly consumedTokens: number;
}

export interface TrainerOptions<Batch> {
  /** The model, or this rank's stages of it. */
  readonly pipeline: Pipeline<Batch>;
  /** Its groups are those of the training run. */
  readonly optimizer: ModelOptimizer;
  /**
   * The rate of the next step, from the updates applied (skipped steps do not count) and the samples
   * consumed.
   */
  readonly learningRate: (position: { numUpdates: number; consumedSamples: number }) => number;
  readonly lossScaler: LossScaler;
  readonly microBatches: NumMicroBatches;
  readonly device: Device;
  /**
   * This data-parallel rank's micro-batches one after the other, from the first sample not yet consumed; on
   * all stages of a pipeline as many.
   */
  readonly batches: AsyncIterator<Batch>;
  /** What the loss is a sum of: every loss that a stage makes, by its name. */
  readonly losses: readonly LossKind<Batch>[];
  /**
   * Losses that are known to be made by stages of ranks that do not take part: in a dry run of one rank.
   * Default: none, each loss is made by a rank of the groups.
   */
  readonly lossesOfAbsentRanks?: readonly string[];
  readonly sequenceLength: number;
  /** Model FLOPs of one sample, forward and backward. */
  readonly flopsPerSample: number;
  readonly trainIterations: number;
  /** Steps whose samples are consumed without being trained on. Default: none. */
  readonly iterationsToSkip?: ReadonlySet<number> | undefined;
  /**
   * Called on all ranks when the gradients of a step are reduced, before they are used up: to look at them.
   */
  readonly onGradients?: ((iteration: number) => void | Promise<void>) | undefined;
  /** Decides between the gradients of a step and its update. Default: every step is taken. */
  readonly guard?: StepGuard | undefined;
  /** Computes steps again that the guard finds suspicious. Default: none is. */
  readonly rerun?: StepRerun | undefined;
  /** Records steps; the pipeline's recorder is the same one. */
  readonly profiler?: StepListener | undefined;
  /** Where to go on; default: the start. */
  readonly progress?: TrainingProgress;
}

/** What an evaluation found. */
export type EvaluatedLoss = Omit<ValidationLoss, 'iteration'>;

/** A step whose batches are here. */
interface RunningStep<Batch> {
  readonly iteration: number;
  readonly batches: readonly Batch[];
  readonly globalBatchSize: number;
  readonly lossScale: number;
  readonly learningRate: number;
}

/** What a step has found, and what was decided about it. */
interface StepOutcome {
  /** Of each kind of loss. */
  readonly means: readonly number[];
  /** Their reported total. */
  readonly loss: number;
  readonly gradientNorm: number;
  readonly peakBytes: number;
  readonly verdict: StepVerdict;
}

/** Of a step that no guard refuses. */
const accepted: StepVerdict = { action: 'update', events: [] };

const weightOf = ({ weight = 1 }: Pick<LossKind<never>, 'weight'>): number => weight;

function checkLosses(losses: ReadonlyArray<LossKind<never>>): void {
  const names = losses.map(({ name }) => name);
  const wrong = losses.find((kind) => !Number.isFinite(weightOf(kind)) || weightOf(kind) === 0);
  if (wrong !== undefined) {
    throw new UsageError('MTL_LOSS_KINDS', `the loss ${wrong.name} has the weight ${wrong.weight}`, {
      expected: 'a finite number other than 0',
      remedy: 'leave out losses that do not count',
    });
  }
  const hasTotal = losses.some(({ isAuxiliary }) => isAuxiliary !== true);
  if (hasTotal && new Set(names).size === names.length) return;
  throw new UsageError('MTL_LOSS_KINDS', `losses of a training run: ${names.join(', ') || 'none'}`, {
    expected: 'one or more losses with different names, of which at least one is not auxiliary',
  });
}

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

/** The sum in the order given, so that it does not depend on how micro-batches were shared out. */
const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/**
 * The training loop: `for await (const step of trainer)` runs one optimizer step per turn. It knows pipelines
 * and batches, not models: the caller defines what a batch is, which losses exist and what counts in them.
 * Every rank of a training run has one, with its own micro-batches; metrics are those of the global batch and
 * the same on all of them but for times.
 */
export class Trainer<Batch> implements AsyncIterable<StepMetrics> {
  /** The ranks of the training run. */
  readonly ranks: Ranks;
  readonly #options: TrainerOptions<Batch>;
  #progress: TrainingProgress;
  #dataWaitMs = 0;

  /**
   * @throws UsageError `MTL_LOSS_KINDS` for no losses, several of one name, or a weight that is 0 or not
   *   finite
   */
  constructor(options: TrainerOptions<Batch>) {
    checkLosses(options.losses);
    this.#options = options;
    this.ranks = new Ranks({
      groups: options.optimizer.groups,
      device: options.device,
      lastStage: options.pipeline.lastRank,
    });
    this.#progress = options.progress ?? { iteration: 0, consumedSamples: 0, consumedTokens: 0 };
  }

  get progress(): TrainingProgress {
    return this.#progress;
  }

  /** Whether the last iteration is done. */
  get isDone(): boolean {
    return this.#progress.iteration >= this.#options.trainIterations;
  }

  /** Milliseconds that steps have spent waiting for data. */
  get dataWaitMs(): number {
    return this.#dataWaitMs;
  }

  /** Runs steps until the last iteration, or until the consumer leaves the loop. */
  async *[Symbol.asyncIterator](): AsyncGenerator<StepMetrics, void, undefined> {
    while (this.#progress.iteration < this.#options.trainIterations) {
      const name = `step ${this.#progress.iteration + 1}`;
      const metrics = await deviceRange({ device: this.#options.device, name }, () => this.#step());
      if (metrics === undefined) return;
      yield metrics;
      // signals, timers and writers get their turn between steps
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /**
   * Mean losses over the next micro-batches of an iterator, without touching parameters. Data-parallel ranks
   * evaluate their own micro-batches, as many each.
   */
  async evaluate(batches: AsyncIterator<Batch>, numMicroBatches: number): Promise<EvaluatedLoss> {
    const { pipeline, losses, microBatches } = this.#options;
    // as many at a time as in a step after ramp-up: a number that schedules fit, and of which evaluations are
    // a multiple
    const most = microBatches.countsOfMicroBatches().at(-1)!;
    const sums: number[][] = losses.map(() => []);
    const counts = losses.map(() => 0);
    for (let done = 0; done < numMicroBatches; ) {
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
      losses.forEach(({ count }, kind) => {
        for (const batch of some) counts[kind]! += count(batch);
      });
      done += some.length;
    }
    const whole = this.#totalCounts(counts, 'the evaluation data hold');
    const means = this.#totalLosses(sums).map((sum, kind) => sum / whole[kind]!);
    return { loss: this.#reportedTotal(means), ...this.#byName(means), ...this.#tokenLosses() };
  }

  async #step(): Promise<StepMetrics | undefined> {
    const start = performance.now();
    const { microBatches, lossScaler, optimizer, learningRate, sequenceLength } = this.#options;
    const { consumedSamples } = this.#progress;
    const { globalBatchSize, numMicroBatches } = microBatches.at(consumedSamples);
    const batches = await this.#take(numMicroBatches);
    // where one rank has no data left, none can go on
    const [isOver] = this.ranks.maximum([batches === undefined ? 1 : 0]);
    if (batches === undefined || isOver === 1) return undefined;
    const { profiler, guard, iterationsToSkip } = this.#options;
    const iteration = this.#progress.iteration + 1;
    const lossScale = lossScaler.scale;
    const rate = learningRate({ numUpdates: optimizer.numSteps, consumedSamples });
    if (iterationsToSkip?.has(iteration) === true) {
      this.#advance(globalBatchSize);
      return this.#leftOut({
        globalBatchSize,
        lossScale,
        learningRate: rate,
        stepMs: performance.now() - start,
      });
    }
    profiler?.beginStep(iteration);
    const step = { iteration, batches, globalBatchSize, lossScale, learningRate: rate };
    const waits = guard?.mayRefuse === true || this.#options.rerun !== undefined;
    const { means, peakBytes, verdict, ...measured } = await (waits
      ? this.#updateIfAccepted(step)
      : this.#updateAtOnce(step));
    const { loss: lmLoss, gradientNorm } = measured;
    this.#advance(globalBatchSize);
    const isOverflow = !Number.isFinite(gradientNorm);
    const isAccepted = verdict.action === 'update';
    if (isOverflow && isAccepted && !this.#canBackOff()) throw this.#divergence(lmLoss, gradientNorm, rate);
    lossScaler.update(isOverflow);
    const stepMs = performance.now() - start;
    profiler?.endStep(iteration);
    return {
      ...this.#progress,
      globalBatchSize,
      lmLoss,
      ...this.#byName(means),
      gradNorm: gradientNorm,
      learningRate: rate,
      lossScale,
      skipped: isOverflow || !isAccepted,
      ...(verdict.action === 'roll-back' ? { rollsBack: true } : {}),
      ...(verdict.events.length === 0 ? {} : { events: verdict.events }),
      stepMs,
      tokensPerSecond: (globalBatchSize * sequenceLength * 1000) / stepMs,
      modelTflops: (this.#options.flopsPerSample * globalBatchSize) / stepMs / 1e9,
      peakBytes,
    };
  }

  /** A step is over: its samples are consumed. */
  #advance(globalBatchSize: number): void {
    const { iteration, consumedSamples, consumedTokens } = this.#progress;
    this.#progress = {
      iteration: iteration + 1,
      consumedSamples: consumedSamples + globalBatchSize,
      consumedTokens: consumedTokens + globalBatchSize * this.#options.sequenceLength,
    };
  }

  /** What is known of a step that was left out: it has no loss, and neither rate nor gradients. */
  #leftOut(
    known: Pick<StepMetrics, 'globalBatchSize' | 'lossScale' | 'learningRate' | 'stepMs'>,
  ): StepMetrics {
    const { losses, device } = this.#options;
    return {
      ...this.#progress,
      ...known,
      lmLoss: Number.NaN,
      ...this.#byName(losses.map(() => Number.NaN)),
      gradNorm: Number.NaN,
      skipped: true,
      isLeftOut: true,
      tokensPerSecond: 0,
      modelTflops: 0,
      peakBytes: memoryStatistics(device).peakBytes,
    };
  }

  /**
   * Passes and update, which detects overflow on the device: waits for the device once, after all numbers of
   * the step have been requested.
   */
  async #updateAtOnce(step: RunningStep<Batch>): Promise<StepOutcome> {
    const { optimizer } = this.#options;
    const { learningRate, lossScale } = step;
    using numbers = this.#numbersOf(step);
    const sums = await this.#passes(step, numbers);
    const { read, peakBytes } = this.#readNumbers(step, () => {
      optimizer.launchStep({ learningRate, lossScale, gradientNorm: numbers.next() });
      return numbers.read();
    });
    const { gradientNorm } = optimizer.finishStep(read.at(-1)!);
    const means = this.#meansOf(step, sums.ofKinds(read, step.batches.length));
    const measured = { means, loss: this.#reportedTotal(means), gradientNorm, peakBytes };
    return { ...measured, verdict: this.#judge(step, measured) };
  }

  /** Passes, and the update where the guard accepts what they found. */
  async #updateIfAccepted(step: RunningStep<Batch>): Promise<StepOutcome> {
    const { optimizer, profiler } = this.#options;
    const { learningRate, lossScale } = step;
    const { measured, events } = await this.#measureAndCheck(step);
    const verdict = this.#judge(step, measured);
    using place = this.#deviceNumbers(1);
    const update = (): void => {
      optimizer.launchStep({ learningRate, lossScale, gradientNorm: place.next() });
      optimizer.finishStep(measured.gradientNorm);
    };
    if (verdict.action !== 'update') optimizer.discardGradients();
    else if (profiler === undefined) update();
    else profiler.span({ kind: 'optimizer' }, update);
    return { ...measured, verdict: { ...verdict, events: [...events, ...verdict.events] } };
  }

  /** What a step computes, once more where it is suspicious. */
  async #measureAndCheck(step: RunningStep<Batch>) {
    const { optimizer, guard, rerun } = this.#options;
    const first = await this.#measure(step);
    if (rerun === undefined) return { measured: first, events: [] };
    const isScalers = this.#isForScaler(first);
    const { step: measured, events } = await rerun.check({
      iteration: step.iteration,
      first,
      isSuspicious: !isScalers && guard?.isSuspicious(first) === true,
      again: async () => {
        optimizer.discardGradients();
        return await this.#measure(step);
      },
      ranks: this.ranks,
    });
    return { measured, events };
  }

  /** Passes, and what they found. */
  async #measure(step: RunningStep<Batch>): Promise<Omit<StepOutcome, 'verdict'> & ComputedStep> {
    const { optimizer, device, rerun } = this.#options;
    using numbers = this.#numbersOf(step);
    using own = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    if (rerun !== undefined) optimizer.recordOwnGradients(own);
    const sums = await this.#passes(step, numbers);
    const { read, peakBytes } = this.#readNumbers(step, () => {
      const squares = optimizer.measureGradients();
      return [...numbers.read(), ...(hasValues(device) ? [own.item(), squares.item()] : [0, 0])];
    });
    const gradientNorm = Math.sqrt(read.at(-1)!) / step.lossScale;
    const means = this.#meansOf(step, sums.ofKinds(read, step.batches.length));
    const loss = this.#reportedTotal(means);
    // a faulty rank may have another loss than those that hold the same, and all must decide alike
    const [agreed] = this.ranks.maximum([Number.isNaN(loss) ? Number.POSITIVE_INFINITY : loss]);
    return { means, loss: agreed!, gradientNorm, peakBytes, own: read.slice(0, -1) };
  }

  /** Whether gradients overflowed under a loss scale that can be lowered. */
  #isForScaler({ gradientNorm }: { readonly gradientNorm: number }): boolean {
    return !Number.isFinite(gradientNorm) && this.#canBackOff();
  }

  /** What the guard decides; an overflow is the loss scaler's to handle while it can. */
  #judge(step: RunningStep<Batch>, measured: { readonly loss: number; readonly gradientNorm: number }) {
    const { guard } = this.#options;
    const { loss, gradientNorm } = measured;
    if (guard === undefined || this.#isForScaler(measured)) return accepted;
    const { iteration, globalBatchSize } = step;
    const { consumedSamples } = this.#progress;
    return guard.judge({ iteration, loss, gradientNorm, consumedSamples, globalBatchSize });
  }

  /** Place for a loss of each kind of each micro-batch, and for the gradient norm. */
  #numbersOf({ batches }: RunningStep<Batch>): DeviceNumbers {
    return this.#deviceNumbers(batches.length * this.#options.losses.length + 1);
  }

  /** Forward and backward; the losses times the scale are left on the device. */
  async #passes({ iteration, batches, lossScale }: RunningStep<Batch>, numbers: DeviceNumbers) {
    const { optimizer, profiler, onGradients } = this.#options;
    const scaledSums = new LossSums(this.#options.losses, numbers);
    namingWrongIndices(`iteration ${iteration}`, () =>
      this.#accumulateGradients(batches, { lossScale, scaledSums }),
    );
    if (onGradients !== undefined) {
      optimizer.reduceGradients();
      await onGradients(iteration);
    }
    if (profiler !== undefined) profiler.span({ kind: 'reduce' }, () => optimizer.reduceGradients());
    return scaledSums;
  }

  /**
   * What `body` reads from the device, which reports only now a wrong index: all ranks end, so that none
   * saves.
   */
  #readNumbers({ iteration }: RunningStep<Batch>, body: () => readonly number[]) {
    const { profiler, device } = this.#options;
    const found = findingWrongIndices(() => profiler?.span({ kind: 'optimizer' }, body) ?? body());
    const read = 'value' in found ? found.value : undefined;
    const { peakBytes } = memoryStatistics(device);
    const [peak, isWrong] = this.ranks.maximum([peakBytes, read === undefined ? 1 : 0]);
    if (read === undefined || isWrong === 1) {
      throw wrongIndexOfStep(iteration, 'wrong' in found ? found.wrong : undefined);
    }
    return { read, peakBytes: peak! };
  }

  /** The mean of each kind of loss over the global batch, from this rank's sums. */
  #meansOf({ lossScale }: RunningStep<Batch>, sums: ReadonlyArray<readonly number[]>): readonly number[] {
    const { losses } = this.#options;
    return this.#totalLosses(sums).map((sum, kind) => sum / (lossScale * weightOf(losses[kind]!)));
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
  #accumulateGradients(
    batches: readonly Batch[],
    { lossScale, scaledSums }: { readonly lossScale: number; readonly scaledSums: LossSums },
  ): void {
    const { pipeline, optimizer, losses } = this.#options;
    const own = losses.map(({ count }) => batches.reduce((sum, batch) => sum + count(batch), 0));
    const counts = this.#totalCounts(own, 'a global batch holds');
    const factors = losses.map((kind, index) => [kind.name, (lossScale * weightOf(kind)) / counts[index]!]);
    try {
      pipeline.run({
        batches,
        lossFactors: Object.fromEntries(factors) as LossFactors,
        beforeLastBackward: (chunk) => optimizer.expectLastBackward(chunk),
        onLoss: (loss, microBatch) => scaledSums.add(loss, microBatch),
      });
    } catch (error) {
      pipeline.abandon();
      throw error;
    }
  }

  /** What counts of each kind of loss over all ranks, from what counts on this one. */
  #totalCounts(own: readonly number[], who: string): readonly number[] {
    return this.#options.losses.map(({ name, per }, kind) => {
      const count = this.ranks.fromLastStage(this.ranks.sumOverData(own[kind]!));
      if (count > 0) return count;
      throw new TrainingError('MTL_NO_DATA', `${who} no ${per} that counts in ${name}`, {
        remedy: 'train or evaluate on data that is not all padding or masked out of the loss',
      });
    });
  }

  /**
   * The sum of each kind of loss over the micro-batches of all ranks and the stages that make it.
   *
   * @throws UsageError MTL_LOSS_KINDS for a kind that no stage makes
   */
  #totalLosses(sums: ReadonlyArray<readonly number[]>): readonly number[] {
    const ofStage = sums.map((own) => total(this.ranks.gatherMicroBatches(own)));
    const isMade = sums.map(({ length }) => (length > 0 ? 1 : 0));
    const all = this.ranks.sumOverStages([...ofStage, ...isMade]);
    const { losses, lossesOfAbsentRanks = [] } = this.#options;
    const missing = losses.filter(
      ({ name }, kind) => all[sums.length + kind] === 0 && !lossesOfAbsentRanks.includes(name),
    );
    if (missing.length === 0) return all.slice(0, sums.length);
    throw new UsageError('MTL_LOSS_KINDS', `no stage makes ${missing.map(({ name }) => name).join(', ')}`, {
      expected: 'the losses that the stages of the model make',
    });
  }

  /** The reported total of the means: the weighted sum of all but auxiliary losses. */
  #reportedTotal(means: readonly number[]): number {
    const parts = this.#options.losses.flatMap((kind, index) =>
      kind.isAuxiliary === true ? [] : [weightOf(kind) * means[index]!],
    );
    return total(parts);
  }

  /** The losses that the reported total is a sum of, where it is one, and auxiliary losses. */
  #byName(means: readonly number[]): Pick<EvaluatedLoss, 'otherLosses'> {
    const { losses } = this.#options;
    const isSum = losses.filter(({ isAuxiliary }) => isAuxiliary !== true).length > 1;
    const named = losses.flatMap(({ name, isAuxiliary }, kind) =>
      isSum || isAuxiliary === true ? [[name, means[kind]!] as const] : [],
    );
    return named.length === 0 ? {} : { otherLosses: Object.fromEntries(named) };
  }

  /** Which of the losses of an evaluation have a perplexity, unless the only one does. */
  #tokenLosses(): Pick<EvaluatedLoss, 'tokenLosses'> {
    const { losses } = this.#options;
    const parts = losses.filter(({ isAuxiliary }) => isAuxiliary !== true);
    const ofTokens = parts.filter(({ per }) => per === 'token');
    if (parts.length > 1) return { tokenLosses: ofTokens.map(({ name }) => name) };
    if (losses.length === 1 && ofTokens.length === 1) return {};
    return { tokenLosses: ofTokens.length === 1 ? ['lm_loss'] : [] };
  }

  /** Whether an overflow is the loss scale's doing: a dynamic one above its minimum. */
  #canBackOff(): boolean {
    const { lossScaler } = this.#options;
    return lossScaler.isDynamic && !lossScaler.isAtMinimum;
  }

  #divergence(loss: number, gradientNorm: number, rate: number): TrainingError {
    const { iteration } = this.#progress;
    return new TrainingError(
      'MTL_NOT_FINITE',
      `iteration ${iteration}: loss ${loss}, gradient norm ${gradientNorm}; the parameters were left as they were`,
      {
        remedy:
          `resume from the newest checkpoint with a lower --lr (it was ${rate}), more warm-up, or --clip-grad; ` +
          'where the same step fails again, from an older one (--ckpt-step)',
        details: { iteration, loss, gradientNorm },
      },
    );
  }
}

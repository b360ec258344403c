import type { MtlError } from '@mtl/errors';
import { memoryStatistics } from '@mtl/kernels';
import type { LossFactors } from '@mtl/pipeline';
import type { Extensions } from '../extensions/extensions.js';
import type { StepVerdict } from '../extensions/trainer-extension.js';
import type { CompleteTrainerOptions } from '../trainer-options.js';
import { checkedCounts, chooseWeight, totalLoss } from './loss-kinds.js';
import type { Ranks } from './ranks.js';
import {
  computedStep,
  type EnqueuedStep,
  type RunningStep,
  type StepOutcome,
  type StepResults,
} from './running-step.js';
import { findingWrongIndices, namingWrongIndices, wrongIndexOfStep } from './step-errors.js';
import { collectParts, StepLosses, sumsOfParts } from './step-losses.js';

/** The verdict for a step that no extension rejects. */
const accepted: StepVerdict = { action: 'update', events: [] };

/**
 * The values of this rank that were read from the device, or an error if the device reports an index out of
 * range.
 */
type ReadNumbers = { readonly value: readonly number[] } | { readonly wrong: MtlError };

/** The results of all ranks except the gradient norm, and the values that this rank contributed. */
type AgreedNumbers = Omit<StepResults, 'gradientNorm'> & { readonly read: readonly number[] };

/**
 * Runs the passes of a step and combines the results of all ranks. Steps run in three ways, which all use
 * this class: with an immediate update, with results that are read late, and with a decision before the
 * update.
 */
export class StepPasses<Batch> {
  readonly options: CompleteTrainerOptions<Batch>;
  readonly extensions: Extensions;
  readonly ranks: Ranks;

  constructor(of: Pick<StepPasses<Batch>, 'options' | 'extensions' | 'ranks'>) {
    this.options = of.options;
    this.extensions = of.extensions;
    this.ranks = of.ranks;
  }

  /** Returns buffers for the losses of the given micro-batches and a gradient norm. */
  makeLosses(batches: readonly Batch[]): StepLosses<Batch> {
    return new StepLosses({ ...this.options, numMicroBatches: batches.length });
  }

  /** Runs the forward and backward passes. The losses, multiplied by the loss scale, stay on the device. */
  async run(step: RunningStep<Batch>, losses: StepLosses<Batch>): Promise<void> {
    const { iteration } = step;
    namingWrongIndices(`iteration ${iteration}`, () => this.#accumulateGradients(step, losses));
    await this.extensions.onGradients(this.options.optimizer, iteration);
  }

  /**
   * Runs the passes and the update, and waits for the device once. The update itself detects overflow on the
   * device.
   */
  async updateAtOnce(step: RunningStep<Batch>): Promise<EnqueuedStep> {
    using losses = this.makeLosses(step.batches);
    await this.run(step, losses);
    const { read, ...found } = this.read(step, losses, () => {
      this.launch(step, losses);
      return losses.read();
    });
    return computedStep(step, this.judged(step, { ...found, gradientNorm: this.#finishUpdate(read) }));
  }

  /** Enqueues the update, which writes the gradient norm next to the losses. */
  launch({ rates, lossScale }: RunningStep<Batch>, losses: StepLosses<Batch>): void {
    this.options.optimizer.launchStep({ ...rates, lossScale, gradientNorm: losses.next() });
  }

  /** Returns the outcome of an update that `launch` has enqueued, from the values that the update wrote. */
  readOutcome(
    step: RunningStep<Batch>,
    losses: StepLosses<Batch>,
    own: { readonly read: ReadNumbers; readonly peakBytes: number },
  ): StepOutcome {
    const { read, ...found } = this.#agree(step, losses, own);
    return this.judged(step, { ...found, gradientNorm: this.#finishUpdate(read) });
  }

  #finishUpdate(read: readonly number[]): number {
    return this.options.optimizer.finishStep(read.at(-1)!).gradientNorm;
  }

  /** Reads values from the device with `body`, and returns the results on which all ranks agree. */
  read(step: RunningStep<Batch>, losses: StepLosses<Batch>, body: () => readonly number[]): AgreedNumbers {
    const read = findingWrongIndices(() => this.extensions.span('optimizer', body));
    return this.#agree(step, losses, { read, peakBytes: memoryStatistics(this.options.device).peakBytes });
  }

  /** Adds the extensions' decision to the results. */
  judged<Results extends StepResults>(step: RunningStep<Batch>, results: Results) {
    return { ...results, verdict: this.#judge(step, results) };
  }

  /**
   * Asks the extensions to decide about the update. As long as the loss scaler can lower its scale, it
   * handles overflowed gradients instead.
   */
  #judge({ iteration, globalBatchSize, from }: RunningStep<Batch>, results: StepResults): StepVerdict {
    if (this.isForScaler(results)) return accepted;
    const { loss, gradientNorm } = results;
    const { consumedSamples } = from;
    return this.extensions.judge({ iteration, loss, gradientNorm, consumedSamples, globalBatchSize });
  }

  /** Returns true if gradients overflowed and the loss scaler can still lower its scale. */
  isForScaler({ gradientNorm }: Pick<StepResults, 'gradientNorm'>): boolean {
    const { lossScaler } = this.options;
    return !Number.isFinite(gradientNorm) && lossScaler.isDynamic && !lossScaler.isAtMinimum;
  }

  /**
   * Returns the losses over all ranks, and the highest memory peak. If an index on a device was out of range,
   * the error is found only here. In this case, all ranks throw, so that no rank saves a checkpoint.
   */
  #agree(
    { iteration, batches, lossScale }: RunningStep<Batch>,
    losses: StepLosses<Batch>,
    own: { readonly read: ReadNumbers; readonly peakBytes: number },
  ): AgreedNumbers {
    const { ranks, options } = this;
    const read = 'value' in own.read ? own.read.value : undefined;
    // sums are NaN if nothing could be read; all ranks then throw below
    const sums = losses.sumsOfMicroBatches(read ?? []);
    const peaks = Array.from({ length: ranks.size }, (_, rank) => (rank === ranks.rank ? own.peakBytes : 0));
    const parts = collectParts(sums, { ...options, ranks, numMicroBatches: batches.length });
    const [numWrong, ...agreed] = ranks.sum([read === undefined ? 1 : 0, ...peaks, ...parts]);
    if (read === undefined || numWrong! > 0) {
      throw wrongIndexOfStep(iteration, 'wrong' in own.read ? own.read.wrong : undefined);
    }
    const means = sumsOfParts(agreed.slice(peaks.length), options).map(
      (sum, kind) => sum / (lossScale * chooseWeight(options.losses[kind]!)),
    );
    const peakBytes = Math.max(...agreed.slice(0, peaks.length));
    return { read, means, loss: totalLoss(options.losses, means), peakBytes };
  }

  /**
   * Runs the forward and backward passes of this rank's micro-batches. Adds the losses, multiplied by the
   * loss scale, to `own`.
   */
  #accumulateGradients(step: RunningStep<Batch>, own: StepLosses<Batch>): void {
    const { pipeline, optimizer, losses } = this.options;
    const { iteration, batches, lossScale } = step;
    const counts = checkedCounts(step.counts, { ...this.options, who: 'a global batch holds' });
    const factors = losses.map((kind, index) => [
      kind.name,
      (lossScale * chooseWeight(kind)) / counts[index]!,
    ]);
    const passes = (): void =>
      pipeline.run({
        batches,
        lossFactors: Object.fromEntries(factors) as LossFactors,
        beforeLastBackward: (chunk) => optimizer.expectLastBackward(chunk),
        onLoss: (loss, microBatch) => own.add(loss, microBatch),
      });
    try {
      this.extensions.aroundPasses(iteration, passes);
    } catch (error) {
      pipeline.abandon();
      throw error;
    }
  }
}

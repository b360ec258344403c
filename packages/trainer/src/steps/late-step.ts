import { DeviceMark, memoryStatistics, type PendingRead } from '@mtl/kernels';
import type { EnqueuedStep, RunningStep, StepOutcome } from './running-step.js';
import { findingWrongIndices } from './step-errors.js';
import type { StepPasses } from './step-passes.js';

/**
 * A step whose results the host reads while the device already computes the next step. The host learns late
 * when a step ends, so the duration is measured on the device, from the end of the previous step to the end
 * of this step.
 */
export class LateStep implements EnqueuedStep {
  /**
   * For a step that began on an idle device, the host's time at the start, in milliseconds, and a mark on the
   * device; undefined for any other step.
   */
  readonly #begin: { readonly hostMs: number; readonly mark: DeviceMark } | undefined;
  #earlier: LateStep | undefined;
  #reads: readonly PendingRead<'float64'>[] = [];
  #readOutcome: (() => StepOutcome) | undefined;
  /**
   * The number of holders of the mark at this step's end: this step and, possibly, the next step, which
   * starts at this mark.
   */
  #numHolders = 1;
  #isDisposed = false;

  /** Starts the measurement, before any of the step's work is enqueued. */
  private constructor(startMs: number, how: LateStepOptions<never>) {
    const { earlier } = how;
    this.#earlier = earlier;
    if (earlier === undefined) {
      this.#begin = { mark: new DeviceMark(how.passes.options.device), hostMs: performance.now() - startMs };
    } else {
      earlier.#numHolders += 1;
    }
  }

  /** Enqueues a step's passes and update without waiting. */
  static async enqueue<Batch>(step: RunningStep<Batch>, how: LateStepOptions<Batch>): Promise<LateStep> {
    const late = new LateStep(step.startMs, how as LateStepOptions<never>);
    try {
      await late.#enqueue(step, how.passes);
      return late;
    } catch (error) {
      late.dispose();
      throw error;
    }
  }

  async #enqueue<Batch>(step: RunningStep<Batch>, passes: StepPasses<Batch>): Promise<void> {
    const { optimizer, device } = passes.options;
    using losses = passes.makeLosses(step.batches);
    await passes.run(step, losses);
    passes.launch(step, losses);
    // the host assumes that the update is applied, because a skipped update ends the run here
    optimizer.assumeUpdate();
    this.#reads = losses.startRead();
    const { peakBytes } = memoryStatistics(device);
    this.#readOutcome = () => {
      const read = findingWrongIndices(() => this.#reads.flatMap((one) => [...one.read()]));
      return passes.readOutcome(step, losses, { read, peakBytes });
    };
  }

  /** Waits until this step has ended, but not for the next step. */
  outcome(): StepOutcome {
    return this.#readOutcome!();
  }

  milliseconds(): number {
    const end = this.#reads.at(-1)!;
    if (this.#begin === undefined) return end.millisecondsSince(this.#earlier!.#reads.at(-1)!);
    return this.#begin.hostMs + end.millisecondsSince(this.#begin.mark);
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#begin?.mark.dispose();
    if (this.#earlier !== undefined) this.#earlier.#release();
    this.#earlier = undefined;
    this.#release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #release(): void {
    this.#numHolders -= 1;
    if (this.#numHolders > 0) return;
    for (const read of this.#reads) read.dispose();
  }
}

interface LateStepOptions<Batch> {
  readonly passes: StepPasses<Batch>;
  /** The previous step, if the device may still be computing it. */
  readonly earlier: LateStep | undefined;
}

import type { StepVerdict } from '../extensions/trainer-extension.js';
import type { TrainingProgress } from '../metrics/training-reports.js';
import type { StepRates } from '../trainer-options.js';

/** A step that has begun and whose batches have been read. */
export interface RunningStep<Batch> {
  /** The time at which the host began the step, in milliseconds, as returned by `performance.now()`. */
  readonly startMs: number;
  readonly iteration: number;
  /** Progress before and after the step. */
  readonly from: TrainingProgress;
  readonly to: TrainingProgress;
  readonly batches: readonly Batch[];
  /**
   * For each kind of loss, the number of counted units in the global batch. The counts are not checked yet.
   */
  readonly counts: readonly number[];
  readonly globalBatchSize: number;
  readonly lossScale: number;
  readonly rates: StepRates;
}

/** The results of a step, combined over all ranks. */
export interface StepResults {
  /** The mean of each kind of loss. */
  readonly means: readonly number[];
  /** The total loss, from which gradients are computed and decisions are made. */
  readonly loss: number;
  readonly gradientNorm: number;
  /** The largest peak memory over all ranks, in bytes. */
  readonly peakBytes: number;
}

/** The results of a step, and the decision about its update. */
export interface StepOutcome extends StepResults {
  readonly verdict: StepVerdict;
}

/** An enqueued step. Its outcome is either already known, or becomes known when the device has finished. */
export interface EnqueuedStep {
  /** Waits until the results of this step are known, but does not wait for later steps. */
  outcome(): StepOutcome;
  /** Returns the duration of the step in milliseconds. Must be called after `outcome`. */
  milliseconds(): number;
  /** Waits for the step, and releases the resources that `outcome` needs. A second call does nothing. */
  dispose(): void;
}

/** Returns a step with a known outcome. Its duration ends with the first call of `milliseconds`. */
export const computedStep = (
  { startMs }: Pick<RunningStep<unknown>, 'startMs'>,
  outcome: StepOutcome,
): EnqueuedStep => ({
  outcome: () => outcome,
  milliseconds: () => performance.now() - startMs,
  dispose: () => {},
});

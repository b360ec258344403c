import type { StepVerdict } from '../extensions/trainer-extension.js';
import type { TrainingProgress } from '../metrics/training-reports.js';
import type { StepRates } from '../trainer-options.js';

/** A step that has begun and whose batches have been read. */
export interface RunningStep<Batch> {
  /** The time when the host began the step, by `performance.now()`. */
  readonly startMs: number;
  readonly iteration: number;
  /** Progress before and after the step. */
  readonly from: TrainingProgress;
  readonly to: TrainingProgress;
  readonly batches: readonly Batch[];
  /** The number of counted units of each kind of loss in the global batch, not yet checked. */
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
  /** The largest peak memory of all ranks, in bytes. */
  readonly peakBytes: number;
}

/** The results of a step, and the decision about its update. */
export interface StepOutcome extends StepResults {
  readonly verdict: StepVerdict;
}

/** An enqueued step. Its outcome is either already known, or becomes known when the device has finished. */
export interface EnqueuedStep {
  /** Waits for the results of this step only. */
  outcome(): StepOutcome;
  /** Returns the duration of the step in milliseconds; must be called after `outcome`. */
  milliseconds(): number;
  /** Releases the resources that `outcome` needs, after waiting for the step. A second call does nothing. */
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

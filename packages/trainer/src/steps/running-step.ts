import type { StepVerdict } from '../extensions/trainer-extension.js';
import type { TrainingProgress } from '../metrics/training-reports.js';
import type { StepRates } from '../trainer-options.js';

/** A step whose batches have been read. */
export interface RunningStep<Batch> {
  /** The time when the host began the step, by `performance.now()`. */
  readonly startMs: number;
  readonly iteration: number;
  /** Progress before and after the step. */
  readonly from: TrainingProgress;
  readonly to: TrainingProgress;
  readonly batches: readonly Batch[];
  /** The counts of each kind of loss in the global batch, not yet checked. */
  readonly counts: readonly number[];
  readonly globalBatchSize: number;
  readonly lossScale: number;
  readonly rates: StepRates;
}

/** Results of a step over all ranks. */
export interface StepResults {
  /** The mean of each kind of loss. */
  readonly means: readonly number[];
  /** The total, which decides about the step and whose gradients are computed. */
  readonly loss: number;
  readonly gradientNorm: number;
  /** The largest peak of all ranks. */
  readonly peakBytes: number;
}

/** Results of a step, and the decision about it. */
export interface StepOutcome extends StepResults {
  readonly verdict: StepVerdict;
}

/** An enqueued step. Its outcome is known now, or once the device has computed it. */
export interface EnqueuedStep {
  /** Waits for the results of this step only, and returns them. */
  outcome(): StepOutcome;
  /** Returns how long the step took; called after `outcome`. */
  milliseconds(): number;
  /** Releases the resources that `outcome` needs; waits for the step. A second call does nothing. */
  dispose(): void;
}

/** Returns a step whose outcome is known; its duration ends when it is first asked for. */
export const computedStep = (
  { startMs }: Pick<RunningStep<unknown>, 'startMs'>,
  outcome: StepOutcome,
): EnqueuedStep => ({
  outcome: () => outcome,
  milliseconds: () => performance.now() - startMs,
  dispose: () => {},
});

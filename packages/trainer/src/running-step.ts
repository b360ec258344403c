import type { StepVerdict } from './spikes/step-verdict.js';
import type { StepRates } from './step-rates.js';
import type { TrainingProgress } from './training-progress.js';

/** A step whose batches are here. */
export interface RunningStep<Batch> {
  readonly startMs: number;
  readonly iteration: number;
  /** Before the step, and after it. */
  readonly from: TrainingProgress;
  readonly to: TrainingProgress;
  readonly batches: readonly Batch[];
  /** What counts of each kind of loss in the global batch, not yet checked. */
  readonly counts: readonly number[];
  readonly globalBatchSize: number;
  readonly lossScale: number;
  readonly rates: StepRates;
}

/** What a step has found, and what was decided about it. */
export interface StepOutcome {
  /** Of each kind of loss. */
  readonly means: readonly number[];
  /** Their total, which decides about the step: what its gradients are of. */
  readonly loss: number;
  readonly gradientNorm: number;
  readonly peakBytes: number;
  readonly verdict: StepVerdict;
}

/** What all ranks make of the numbers that a step leaves on devices. */
export interface AgreedNumbers extends Pick<StepOutcome, 'means' | 'loss' | 'peakBytes'> {
  /** Those of this rank. */
  readonly read: readonly number[];
}

import type { TrainingEvent } from '../training-event.js';

/** What is known of a step when its gradients are, the same on all ranks. */
export interface MeasuredStep {
  readonly iteration: number;
  /** The total of its losses, in nats; NaN or infinite where a loss is. */
  readonly loss: number;
  /** Unscaled, before clipping; NaN or infinite where a gradient is. */
  readonly gradientNorm: number;
  /** Samples that were consumed before the step. */
  readonly consumedSamples: number;
  /** Samples of the step. */
  readonly globalBatchSize: number;
}

/** What is done with a step. */
export interface StepVerdict {
  /**
   * `update`: the optimizer's step is taken. `skip`: it is not. `roll-back`: neither, and training goes on
   * from the newest checkpoint, with the samples that follow.
   */
  readonly action: 'update' | 'skip' | 'roll-back';
  readonly events: readonly TrainingEvent[];
}

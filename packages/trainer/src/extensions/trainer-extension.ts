import type { JsonObject } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { EvaluatedStep, StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { Ranks } from '../steps/ranks.js';

/** The results of a step after its gradients have been computed. All ranks have the same results. */
export interface MeasuredStep {
  readonly iteration: number;
  /** The total loss, in nats. Not finite if any loss is not finite. */
  readonly loss: number;
  /** The gradient norm, unscaled, before clipping. Not finite if any gradient is not finite. */
  readonly gradientNorm: number;
  /** The number of samples consumed before the step. */
  readonly consumedSamples: number;
  /** The number of samples in the step. */
  readonly globalBatchSize: number;
}

/** The decision of an extension about a step. */
export interface StepVerdict {
  /**
   * The action after the gradients are known:
   * - `update`: the optimizer step is applied
   * - `skip`: the optimizer step is not applied
   * - `roll-back`: the optimizer step is not applied, and training continues from the newest checkpoint with
   *   the next samples
   */
  readonly action: 'update' | 'skip' | 'roll-back';
  readonly events: readonly TrainingEvent[];
}

/** The results of computing a step once. A step may be computed several times. */
export interface ComputedStep {
  /** The total loss, which is the same on all ranks. */
  readonly loss: number;
  readonly gradientNorm: number;
  /** The results of this rank before any collective: its losses, and the sum of squares of its gradients. */
  readonly own: readonly number[];
}

export interface RerunRequest<Step extends ComputedStep> {
  readonly iteration: number;
  readonly first: Step;
  /** True if an extension finds that the loss or gradient norm is out of bounds or not finite. */
  readonly isSuspicious: boolean;
  /** Computes the step again and replaces the previous results. All ranks must call this function. */
  readonly again: () => Promise<Step>;
  readonly ranks: Pick<Ranks, 'ofEveryRank'>;
}

/** A phase of a step that `TrainerExtension.span` wraps. */
export interface StepSpan {
  /**
   * `reduce`: the gradients are reduced. `optimizer`: the gradient norm and the update are computed, and the
   * host waits for the step's metrics.
   */
  readonly kind: 'reduce' | 'optimizer';
}

/**
 * An extension of the training loop. It observes each step, may influence the step's update, and may have a
 * state. All methods are called on all ranks, in the order of the trainer's `extensions`, and must make the
 * same decisions on all ranks.
 */
export interface TrainerExtension {
  /** The name under which checkpoints store the state. Each extension of a trainer has a different name. */
  readonly name: string;
  /** The state with which a resumed run continues, as JSON. Default: no state. */
  readonly state?: JsonObject | undefined;
  /**
   * Restores the state of this extension from a checkpoint.
   *
   * @throws CheckpointError `MTL_CHECKPOINT_STATE` if the value is not a state of this extension
   */
  restore?(state: unknown, path: string): void;

  /**
   * True if the extension decides about updates. In each step, the loop then waits for the losses and the
   * gradient norm before the update, and calls `repeat` and `judge` before it. Otherwise, the loop calls
   * `judge` after the update.
   */
  readonly decides?: boolean | undefined;
  /**
   * True if each step must end before the next step begins. Default: true if the extension decides about
   * updates.
   */
  readonly waits?: boolean | undefined;

  /** Called before any work of a step is enqueued. */
  beforeStep?(iteration: number): void;
  /**
   * Wraps the passes of a step. Must call `passes`, which enqueues the forward and backward passes, exactly
   * once.
   */
  aroundPasses?(iteration: number, passes: () => void): void;
  /**
   * Called after the gradients are reduced and before the optimizer uses them. The extension may read the
   * gradients.
   */
  onGradients?(optimizer: ModelOptimizer, iteration: number): void | Promise<void>;
  /** Wraps a phase of a step. Must call `body` exactly once and return its result. */
  span?<Result>(part: StepSpan, body: () => Result): Result;
  /**
   * Returns true if a step should be computed again because its results are out of bounds or not finite. Must
   * not record the step.
   */
  isSuspicious?(step: Pick<MeasuredStep, 'loss' | 'gradientNorm'>): boolean;
  /**
   * Returns the results with which the step continues. The extension may compute the step again before it
   * returns.
   */
  repeat?<Step extends ComputedStep>(
    request: RerunRequest<Step>,
  ): Promise<{ readonly step: Step; readonly events: readonly TrainingEvent[] }>;
  /**
   * Records a step and decides about its update. Not called if gradients overflowed and the loss scaler can
   * still lower its scale.
   *
   * @throws TrainingError if the run must end
   */
  judge?(step: MeasuredStep): StepVerdict;

  /** Called after a step, before its metrics are reported. Returned events are added to the metrics. */
  afterStep?(metrics: StepMetrics): readonly TrainingEvent[];
  /** Called after an evaluation in a run (see `trainingSteps`). */
  afterEvaluation?(evaluated: EvaluatedStep): void;
  /** Called before the first step, and after work between steps, such as an evaluation. */
  resume?(): void;
  /** Called before work between steps, such as an evaluation. */
  pause?(): void;
  /** Called after the last step. Returns the remaining events. */
  end?(iteration: number): readonly TrainingEvent[];
  /** The reason why the run must end after this step or evaluation; undefined while the run continues. */
  readonly endsRun?: string | undefined;
}

/** Returns the error for an extension whose stored state is not valid. */
export function makeStateError(name: string, path: string): CheckpointError {
  return new CheckpointError(
    'MTL_CHECKPOINT_STATE',
    `${path} does not contain the state of a training run: ${name} is wrong`,
    { remedy: 'use --finetune to take only the weights', exitCode: 2 },
  );
}

/** Returns true if `value`, which comes from a file, is an integer ≥ 0. */
export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

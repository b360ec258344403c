import type { JsonObject } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { EvaluatedStep, StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { Ranks } from '../steps/ranks.js';

/** The results of a step when its gradients are known; equal on all ranks. */
export interface MeasuredStep {
  readonly iteration: number;
  /** The total of the losses, in nats; NaN or infinite if a loss is. */
  readonly loss: number;
  /** The gradient norm, unscaled, before clipping; NaN or infinite if a gradient is. */
  readonly gradientNorm: number;
  /** Number of samples consumed before the step. */
  readonly consumedSamples: number;
  /** Number of samples of the step. */
  readonly globalBatchSize: number;
}

/** A decision about a step. */
export interface StepVerdict {
  /**
   * `update`: the optimizer step is taken. `skip`: it is not taken. `roll-back`: it is not taken, and
   * training continues from the newest checkpoint with the samples that follow.
   */
  readonly action: 'update' | 'skip' | 'roll-back';
  readonly events: readonly TrainingEvent[];
}

/** The results of a computation of a step. */
export interface ComputedStep {
  /** The total of the losses, equal on all ranks. */
  readonly loss: number;
  readonly gradientNorm: number;
  /** Results of this rank before any reduction: its losses, and the sum of squares of its gradients. */
  readonly own: readonly number[];
}

export interface RerunRequest<Step extends ComputedStep> {
  readonly iteration: number;
  readonly first: Step;
  /** True if the step is out of bounds or not finite. */
  readonly isSuspicious: boolean;
  /** Computes the step again and replaces the results computed before. All ranks call it. */
  readonly again: () => Promise<Step>;
  readonly ranks: Pick<Ranks, 'ofEveryRank'>;
}

/** A part of a step that `TrainerExtension.span` surrounds. */
export interface StepSpan {
  /**
   * `reduce`: gradients are reduced. `optimizer`: the norm, the update, and the wait for the numbers of the
   * step.
   */
  readonly kind: 'reduce' | 'optimizer';
}

/**
 * A part that joins the training loop: it sees each step, may decide about it, and keeps a state. All methods
 * are called on all ranks, in the order of the trainer's `extensions`, and decide alike on all ranks.
 */
export interface TrainerExtension {
  /** The name under which checkpoints store the state; each extension of a trainer has a different name. */
  readonly name: string;
  /** The state that a resumed run continues with, as JSON. Default: no state. */
  readonly state?: JsonObject | undefined;
  /**
   * Restores the state of this extension from a checkpoint.
   *
   * @throws CheckpointError `MTL_CHECKPOINT_STATE` if the value is not a state of this extension
   */
  restore?(state: unknown, path: string): void;

  /**
   * True if the extension decides about updates. Each step then waits for its losses and its gradient norm
   * before the update, and calls `repeat` and `judge` there. Otherwise `judge` is called after the update.
   */
  readonly decides?: boolean | undefined;
  /** True if each step must end before the next one begins. Default: true if the extension decides. */
  readonly waits?: boolean | undefined;

  /** Called before any work of a step is enqueued. */
  beforeStep?(iteration: number): void;
  /** Runs `passes`, which enqueue the forward and backward passes of a step, once. */
  aroundPasses?(iteration: number, passes: () => void): void;
  /** Called between the reduction of the gradients and their use, to look at them. */
  onGradients?(optimizer: ModelOptimizer, iteration: number): void | Promise<void>;
  /** Runs a part of a step, once. */
  span?<Result>(part: StepSpan, body: () => Result): Result;
  /**
   * Tells whether a step should be computed again because it is out of bounds or not finite. Records nothing.
   */
  isSuspicious?(step: Pick<MeasuredStep, 'loss' | 'gradientNorm'>): boolean;
  /** Returns the results of a step to continue with; the extension may compute them again. */
  repeat?<Step extends ComputedStep>(
    request: RerunRequest<Step>,
  ): Promise<{ readonly step: Step; readonly events: readonly TrainingEvent[] }>;
  /**
   * Records a step and decides about it. Not called if gradients overflowed under a loss scale that can be
   * lowered.
   *
   * @throws TrainingError if the run must end
   */
  judge?(step: MeasuredStep): StepVerdict;

  /** Called after a step, before its metrics are reported; returned events are added to the metrics. */
  afterStep?(metrics: StepMetrics): readonly TrainingEvent[];
  /** Called after an evaluation of a run (`trainingSteps`). */
  afterEvaluation?(evaluated: EvaluatedStep): void;
  /** Called before the first step, and after work outside of steps, such as an evaluation. */
  resume?(): void;
  /** Called before work outside of steps. */
  pause?(): void;
  /** Called after the last step. */
  end?(iteration: number): readonly TrainingEvent[];
  /** The reason why the run must end after a step or an evaluation; undefined while the run continues. */
  readonly endsRun?: string | undefined;
}

/** Returns the error of an extension whose stored state is not valid. */
export function makeStateError(name: string, path: string): CheckpointError {
  return new CheckpointError(
    'MTL_CHECKPOINT_STATE',
    `${path} does not contain the state of a training run: ${name} is wrong`,
    { remedy: 'use --finetune to take only the weights', exitCode: 2 },
  );
}

/** Tells whether a value from a file is a whole number of 0 or more. */
export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

import type { JsonObject } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { EvaluatedStep, StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { Ranks } from '../steps/ranks.js';

/** The results of a step when its gradients are known, equal on all ranks. */
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

/** A decision about a step. */
export interface StepVerdict {
  /**
   * `update`: the optimizer's step is taken. `skip`: it is not. `roll-back`: neither, and training goes on
   * from the newest checkpoint, with the samples that follow.
   */
  readonly action: 'update' | 'skip' | 'roll-back';
  readonly events: readonly TrainingEvent[];
}

/** The results of a computation of a step. */
export interface ComputedStep {
  /** The total of the losses, equal on all ranks. */
  readonly loss: number;
  readonly gradientNorm: number;
  /**
   * Results of this rank alone, before anything is reduced: its losses, and the sum of squares of its
   * gradients.
   */
  readonly own: readonly number[];
}

export interface RerunRequest<Step extends ComputedStep> {
  readonly iteration: number;
  readonly first: Step;
  /** True if the step is out of bounds or not finite. */
  readonly isSuspicious: boolean;
  /** Computes the step again, in place of what was computed before. All ranks do. */
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
 * A part that joins the training loop: it sees each step, may decide about it, and keeps a state of its own.
 * All methods are called on all ranks, in the order of the trainer's `extensions`, and decide alike on all of
 * them.
 */
export interface TrainerExtension {
  /** Under this name checkpoints keep its state; each extension of a trainer has another. */
  readonly name: string;
  /** The state that a resumed run continues with: JSON. Default: it has none. */
  readonly state?: JsonObject | undefined;
  /**
   * Takes the state that a checkpoint has of it.
   *
   * @throws CheckpointError `MTL_CHECKPOINT_STATE` for what is none
   */
  restore?(state: unknown, path: string): void;

  /**
   * True if it decides about updates: each step then waits for its losses and its gradient norm before the
   * update, and asks `repeat` and `judge` there. Without it `judge` is asked after the update.
   */
  readonly decides?: boolean | undefined;
  /** True if it needs each step to be over before the next one begins. Default: true if it decides. */
  readonly waits?: boolean | undefined;

  /** Called before anything of a step is enqueued. */
  beforeStep?(iteration: number): void;
  /** Runs `passes`, which enqueue the forward and backward passes of a step, once. */
  aroundPasses?(iteration: number, passes: () => void): void;
  /** Between the reduction of the gradients and their use: to look at them. */
  onGradients?(optimizer: ModelOptimizer, iteration: number): void | Promise<void>;
  /** Runs a part of a step, once. */
  span?<Result>(part: StepSpan, body: () => Result): Result;
  /** Tells whether a step should be computed again: out of bounds, or not finite. Takes no note of it. */
  isSuspicious?(step: Pick<MeasuredStep, 'loss' | 'gradientNorm'>): boolean;
  /** The results of a step to go on with, which it may compute again. */
  repeat?<Step extends ComputedStep>(
    request: RerunRequest<Step>,
  ): Promise<{ readonly step: Step; readonly events: readonly TrainingEvent[] }>;
  /**
   * Takes note of a step and decides about it. Not called for a step whose gradients overflowed under a loss
   * scale that can be lowered.
   *
   * @throws TrainingError where the run must end
   */
  judge?(step: MeasuredStep): StepVerdict;

  /** Called after a step, before its metrics are given out; returned events are added to theirs. */
  afterStep?(metrics: StepMetrics): readonly TrainingEvent[];
  /** Called after an evaluation of a run (`trainingSteps`). */
  afterEvaluation?(evaluated: EvaluatedStep): void;
  /** Called before the first step, and after anything that is no part of the steps, such as an evaluation. */
  resume?(): void;
  /** Called before anything that is no part of the steps. */
  pause?(): void;
  /** Called after the last step. */
  end?(iteration: number): readonly TrainingEvent[];
  /** The reason why the run is to end after a step or an evaluation; undefined as long as it is not. */
  readonly endsRun?: string | undefined;
}

/** Returns the error of an extension that finds something else where its state should be. */
export function noStateOf(name: string, path: string): CheckpointError {
  return new CheckpointError(
    'MTL_CHECKPOINT_STATE',
    `${path} does not contain the state of a training run: ${name} is wrong`,
    { remedy: 'use --finetune to take only the weights', exitCode: 2 },
  );
}

/** Tells whether a value of a file is a whole number of 0 or more. */
export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

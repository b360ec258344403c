import type { JsonObject } from '@mtl/checkpoint';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { EvaluatedStep, StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { Ranks } from '../steps/ranks.js';

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

/** What a step has computed. */
export interface ComputedStep {
  /** The same on all ranks. */
  readonly loss: number;
  readonly gradientNorm: number;
  /** Of this rank alone, before anything is reduced: its losses, and the sum of squares of its gradients. */
  readonly own: readonly number[];
}

export interface RerunRequest<Step extends ComputedStep> {
  readonly iteration: number;
  readonly first: Step;
  /** Whether the step is out of bounds or not finite. */
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
 * What joins the training loop: it sees each step, may decide about it, and keeps a state of its own. All
 * methods are called on all ranks, in the order of the trainer's `extensions`, and decide alike on all of
 * them.
 */
export interface TrainerExtension {
  /** Under this name checkpoints keep its state; each extension of a trainer has another. */
  readonly name: string;
  /** What a resumed run goes on with: JSON. Default: it has none. */
  readonly state?: JsonObject | undefined;
  /**
   * Takes the state that a checkpoint has of it.
   *
   * @throws CheckpointError `MTL_CHECKPOINT_STATE` for what is none
   */
  restore?(state: unknown, path: string): void;

  /**
   * Whether it decides about updates: each step then waits for its losses and its gradient norm before the
   * update, and asks `repeat` and `judge` there. Without it `judge` is asked after the update.
   */
  readonly decides?: boolean | undefined;
  /** Whether it needs each step to be over before the next one begins. Default: where it decides. */
  readonly waits?: boolean | undefined;

  /** Before anything of a step is enqueued. */
  beforeStep?(iteration: number): void;
  /** Runs `passes`, which enqueue the forward and backward passes of a step, once. */
  aroundPasses?(iteration: number, passes: () => void): void;
  /** Between the reduction of the gradients and their use: to look at them. */
  onGradients?(optimizer: ModelOptimizer, iteration: number): void | Promise<void>;
  /** Runs a part of a step, once. */
  span?<Result>(part: StepSpan, body: () => Result): Result;
  /** Whether a step is worth computing again: out of bounds, or not finite. Takes no note of it. */
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

  /** After a step, before its metrics are given out; what it returns is added to their events. */
  afterStep?(metrics: StepMetrics): readonly TrainingEvent[];
  /** Of a run (`trainingSteps`): after an evaluation. */
  afterEvaluation?(evaluated: EvaluatedStep): void;
  /** Before the first step, and after what is no part of the steps, such as an evaluation. */
  resume?(): void;
  /** Before what is no part of the steps. */
  pause?(): void;
  /** After the last step. */
  end?(iteration: number): readonly TrainingEvent[];
  /** Why the run is to end after a step or an evaluation; undefined as long as it is not. */
  readonly endsRun?: string | undefined;
}

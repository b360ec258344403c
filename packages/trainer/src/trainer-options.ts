import type { Device } from '@mtl/kernels';
import { shareAmongGroups } from '@mtl/layout';
import { LossScaler, type ModelOptimizer, NumMicroBatches } from '@mtl/optimizer';
import type { Pipeline } from '@mtl/pipeline';
import type { TrainerExtension } from './extensions/trainer-extension.js';
import type { StepMetrics, TrainingProgress } from './metrics/training-reports.js';
import type { LossKind } from './steps/loss-kinds.js';

/** The learning rate of a step, from the progress of training. */
export type LearningRate = (position: {
  readonly numUpdates: number;
  readonly consumedSamples: number;
}) => number;

export interface TrainerOptions<Batch> {
  /** The model, or this rank's stages of it. */
  readonly pipeline: Pipeline<Batch>;
  /** The optimizer; its groups are the groups of the training run. */
  readonly optimizer: ModelOptimizer;
  /**
   * The rate of the next step, from the updates applied (skipped steps do not count) and the samples
   * consumed; or one rate for all steps.
   */
  readonly learningRate: number | LearningRate;
  /**
   * The learning rate of the parameters to which --decoupled-lr applies. Default: `learningRate`; metrics
   * then contain no decoupled learning rate.
   */
  readonly decoupledLearningRate?: LearningRate | undefined;
  /** The loss scaler. Default: losses are not scaled. */
  readonly lossScaler?: LossScaler;
  /**
   * The division of a batch into micro-batches. Default: one micro-batch of one sample for each share of a
   * batch.
   */
  readonly microBatches?: NumMicroBatches;
  /** The device of the model. Default: cpu. */
  readonly device?: Device;
  /**
   * The micro-batches of this rank's share, in order, from the first sample not yet consumed. All stages of a
   * pipeline must get the same number.
   */
  readonly batches: AsyncIterator<Batch>;
  /** The losses whose sum is the total: every loss that a stage computes, by its name. */
  readonly losses: readonly LossKind<Batch>[];
  /**
   * Names of losses that stages of absent ranks compute, in a dry run of one rank. Default: none; each loss
   * is computed by a rank of the groups.
   */
  readonly lossesOfAbsentRanks?: readonly string[];
  /** Tokens of one sample, for metrics. Default 1. */
  readonly sequenceLength?: number;
  /** Model FLOPs of one sample, forward and backward, for metrics. Default 0: the rate is unknown. */
  readonly flopsPerSample?: number;
  readonly trainIterations: number;
  /** Steps whose samples are consumed without being trained on. Default: none. */
  readonly iterationsToSkip?: ReadonlySet<number> | undefined;
  /**
   * The extensions of the loop, such as guards, watches, recorders and extensions of the caller. Default:
   * none.
   */
  readonly extensions?: readonly TrainerExtension[];
  /** The progress to continue from. Default: the start. */
  readonly progress?: TrainingProgress;
}

/** Choices of a caller about the steps of a trainer. They must be equal on all ranks. */
export interface StepsOptions {
  /**
   * Tells whether a step must end, with its metrics yielded, before the next one begins. This is needed if
   * the caller's next decision depends on the state after this step. The answer must depend only on
   * configuration and step number. Default: always.
   */
  readonly waitsAfter?: (iteration: number) => boolean;
  /** Asked before each step whether to start no further step. A step that has begun ends, and is yielded. */
  readonly isOver?: () => boolean;
  /** Further numbers that the ranks share before each step. `isOver` is asked after it. Default: none. */
  readonly agreement?: StepAgreement;
}

/** Numbers that ranks share before a step, in the collective that the step needs anyway. */
export interface StepAgreement {
  /** Returns the numbers of this rank; all ranks must return the same number of values. */
  own(): readonly number[];
  /** Receives the sums over all ranks, on every rank; awaited before the step begins. */
  agreed(sums: readonly number[]): Promise<void>;
}

/** Options in which every option with a default is present. */
export interface CompleteTrainerOptions<Batch>
  extends Omit<TrainerOptions<Batch>, keyof Defaults>,
    Readonly<Defaults> {}

interface Defaults {
  learningRate: LearningRate;
  lossScaler: LossScaler;
  microBatches: NumMicroBatches;
  device: Device;
  sequenceLength: number;
  flopsPerSample: number;
  extensions: readonly TrainerExtension[];
}

/** Returns the options with defaults for missing ones. */
export function completeTrainerOptions<Batch>(options: TrainerOptions<Batch>): CompleteTrainerOptions<Batch> {
  const { learningRate, device = 'cpu', sequenceLength = 1, flopsPerSample = 0 } = options;
  const { count: numShares } = shareAmongGroups(options.optimizer.groups);
  const oneSample = { globalBatchSize: numShares, microBatchSize: 1, numShares };
  return {
    ...options,
    learningRate: typeof learningRate === 'number' ? () => learningRate : learningRate,
    lossScaler: options.lossScaler ?? new LossScaler({ kind: 'constant' }),
    microBatches: options.microBatches ?? new NumMicroBatches(oneSample),
    device,
    sequenceLength,
    flopsPerSample,
    extensions: options.extensions ?? [],
  };
}

/** The learning rates of a step. */
export type StepRates = Pick<StepMetrics, 'learningRate' | 'decoupledLearningRate'>;

/** Returns the learning rates of the step that follows this number of samples. */
export function stepRates<Batch>(
  options: Pick<CompleteTrainerOptions<Batch>, 'optimizer' | 'learningRate' | 'decoupledLearningRate'>,
  consumedSamples: number,
): StepRates {
  const { optimizer, learningRate, decoupledLearningRate } = options;
  const position = { numUpdates: optimizer.numSteps, consumedSamples };
  return {
    learningRate: learningRate(position),
    ...(decoupledLearningRate && { decoupledLearningRate: decoupledLearningRate(position) }),
  };
}

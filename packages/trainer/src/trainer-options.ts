import type { Device } from '@mtl/kernels';
import { shareAmongGroups } from '@mtl/layout';
import { LossScaler, type ModelOptimizer, NumMicroBatches } from '@mtl/optimizer';
import type { Pipeline } from '@mtl/pipeline';
import type { TrainerExtension } from './extensions/trainer-extension.js';
import type { StepMetrics, TrainingProgress } from './metrics/training-reports.js';
import type { LossKind } from './steps/loss-kinds.js';

/** Returns the learning rate of the next step, from the progress of training. */
export type LearningRate = (position: {
  readonly numUpdates: number;
  readonly consumedSamples: number;
}) => number;

export interface TrainerOptions<Batch> {
  /** The model, or the stages of the model that are on this rank. */
  readonly pipeline: Pipeline<Batch>;
  /** The optimizer. Its groups are the process groups of the training run. */
  readonly optimizer: ModelOptimizer;
  /**
   * The learning rate of the next step: a constant, or a function of the number of applied updates (without
   * skipped steps) and of consumed samples.
   */
  readonly learningRate: number | LearningRate;
  /**
   * The learning rate of the parameters to which --decoupled-lr applies. Default: `learningRate`; metrics
   * then contain no decoupled learning rate.
   */
  readonly decoupledLearningRate?: LearningRate | undefined;
  /** The loss scaler. Default: losses are not scaled. */
  readonly lossScaler?: LossScaler;
  /** The number of micro-batches of a step. Default: one micro-batch of one sample per data-parallel rank. */
  readonly microBatches?: NumMicroBatches;
  /** The device of the model. Default: cpu. */
  readonly device?: Device;
  /**
   * The micro-batches of this rank in order, from the first unused sample. All stages of a pipeline must get
   * the same number of micro-batches.
   */
  readonly batches: AsyncIterator<Batch>;
  /**
   * The losses in the total, which is their weighted sum. Every loss that a stage computes must be listed by
   * its name.
   */
  readonly losses: readonly LossKind<Batch>[];
  /** Names of losses that stages of absent ranks compute, in a dry run of one rank. Default: none. */
  readonly lossesOfAbsentRanks?: readonly string[];
  /** The number of tokens per sample, for metrics. Default 1. */
  readonly sequenceLength?: number;
  /** The model FLOPs per sample, forward and backward, for metrics. Default 0: the FLOP rate is not known. */
  readonly flopsPerSample?: number;
  readonly trainIterations: number;
  /** The iterations that consume samples without training on them. Default: none. */
  readonly iterationsToSkip?: ReadonlySet<number> | undefined;
  /**
   * The extensions of the loop, such as guards and recorders. The loop calls them in this order. Default:
   * none.
   */
  readonly extensions?: readonly TrainerExtension[];
  /** The progress from which training continues. Default: the start of training. */
  readonly progress?: TrainingProgress;
}

/** The caller's choices about the steps of a trainer. They must be equal on all ranks. */
export interface StepsOptions {
  /**
   * Returns true if a step must end, and its metrics be yielded, before the next step begins. Callers need
   * this if their next decision depends on the state after the step. The result must depend only on
   * configuration and step number. Default: true for every step.
   */
  readonly waitsAfter?: (iteration: number) => boolean;
  /**
   * The trainer calls this function before each step. If it returns true, no further step begins. A step that
   * has begun is finished and yielded.
   */
  readonly isOver?: () => boolean;
  /** Numbers that the ranks share before each step; `isOver` is called afterwards. Default: none. */
  readonly agreement?: StepAgreement;
}

/** Numbers that ranks add up before a step, in a collective that every step needs in any case. */
export interface StepAgreement {
  /** Returns the numbers of this rank. The number of values must be the same on all ranks. */
  own(): readonly number[];
  /** Receives the sums over all ranks, on every rank; awaited before the step begins. */
  agreed(sums: readonly number[]): Promise<void>;
}

/** The trainer's options after defaults have been filled in. */
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

/** Returns the options, with defaults for missing options. */
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

/** Returns the learning rates of the step that begins after this number of consumed samples. */
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

import type { Device } from '@mtl/kernels';
import { shareAmongGroups } from '@mtl/layout';
import { LossScaler, type ModelOptimizer, NumMicroBatches } from '@mtl/optimizer';
import type { Pipeline } from '@mtl/pipeline';
import type { TrainerExtension } from './extensions/trainer-extension.js';
import type { StepMetrics, TrainingProgress } from './metrics/training-reports.js';
import type { LossKind } from './steps/loss-kinds.js';

/** Returns the learning rate of the next step, given the progress of training. */
export type LearningRate = (position: {
  readonly numUpdates: number;
  readonly consumedSamples: number;
}) => number;

export interface TrainerOptions<Batch> {
  /** The model, or the model's stages on this rank. */
  readonly pipeline: Pipeline<Batch>;
  /** The optimizer, whose `groups` are the process groups of the training run. */
  readonly optimizer: ModelOptimizer;
  /**
   * The learning rate of the next step: a constant, or a function of the number of applied updates (without
   * skipped steps) and the number of consumed samples.
   */
  readonly learningRate: number | LearningRate;
  /**
   * The learning rate of the parameters to which --decoupled-lr applies. Default: `learningRate`, and metrics
   * contain no decoupled learning rate.
   */
  readonly decoupledLearningRate?: LearningRate | undefined;
  /** The loss scaler. Default: losses are not scaled. */
  readonly lossScaler?: LossScaler;
  /**
   * The number of micro-batches in each step. Default: one micro-batch with one sample per data-parallel
   * rank.
   */
  readonly microBatches?: NumMicroBatches;
  /** The device of the model. Default: cpu. */
  readonly device?: Device;
  /**
   * The micro-batches of this rank in order, from the first unused sample. All stages of a pipeline must get
   * the same number of micro-batches.
   */
  readonly batches: AsyncIterator<Batch>;
  /**
   * The losses, whose weighted sum is the total. Every loss that a stage computes must be listed, under its
   * name.
   */
  readonly losses: readonly LossKind<Batch>[];
  /**
   * The names of losses that are computed by stages of absent ranks, in a dry run with a single rank.
   * Default: none.
   */
  readonly lossesOfAbsentRanks?: readonly string[];
  /** The number of tokens per sample, for metrics. Default: 1. */
  readonly sequenceLength?: number;
  /**
   * The model FLOPs per sample in the forward and backward passes, for metrics. Default: 0, which means that
   * the FLOP rate is not known.
   */
  readonly flopsPerSample?: number;
  readonly trainIterations: number;
  /** The iterations that consume samples without training on them. Default: none. */
  readonly iterationsToSkip?: ReadonlySet<number> | undefined;
  /**
   * The extensions of the loop, such as guards and recorders, in the order in which the loop calls them.
   * Default: none.
   */
  readonly extensions?: readonly TrainerExtension[];
  /** The progress from which training continues. Default: the start of training. */
  readonly progress?: TrainingProgress;
}

/** The caller's choices about a trainer's steps. They must be the same on all ranks. */
export interface StepsOptions {
  /**
   * Returns true if a step must end, and its metrics must be yielded, before the next step begins. Callers
   * need this if their next decision depends on the state after the step. The result must depend only on
   * configuration and step number. Default: true for every step.
   */
  readonly waitsAfter?: (iteration: number) => boolean;
  /**
   * Called before each step. If it returns true, no further step begins. A step that has already begun is
   * finished and yielded.
   */
  readonly isOver?: () => boolean;
  /** Values that the ranks share before each step. `isOver` is called afterwards. Default: none. */
  readonly agreement?: StepAgreement;
}

/** Values that ranks add up before a step, in a collective that every step needs anyway. */
export interface StepAgreement {
  /** Returns this rank's values. Their number must be the same on all ranks. */
  own(): readonly number[];
  /**
   * Receives the sums over all ranks, on every rank. The step begins after the returned promise has resolved.
   */
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

/** Returns the options, with defaults where they are missing. */
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

/** Returns the learning rates of the step that begins after `consumedSamples` samples. */
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

import type { PretrainingConfiguration } from '@mtl/configuration';
import type { NumberedBatch } from '@mtl/layout';
import { LearningRateSchedule, type LossScaler, type ModelOptimizer } from '@mtl/optimizer';
import {
  type LearningRate,
  type LossKind,
  Trainer,
  type TrainerExtension,
  type TrainerOptions,
  type TrainingProgress,
} from '@mtl/trainer';
import { planMicroBatches } from './data/training-data.js';
import type { RankStages } from './models/build-stages.js';

export interface NewTrainerOptions {
  readonly configuration: PretrainingConfiguration;
  /** This rank's part of the model. */
  readonly part: Pick<RankStages, 'pipeline'>;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly losses: readonly LossKind<NumberedBatch>[];
  /** The names of losses that are computed by other ranks (see `TrainerOptions`). */
  readonly lossesOfAbsentRanks?: readonly string[];
  /** This rank's micro-batches. */
  readonly batches: AsyncIterator<NumberedBatch>;
  readonly progress: TrainingProgress | undefined;
  /** Extensions of the loop, in order; undefined entries are skipped. */
  readonly extensions: readonly (TrainerExtension | undefined)[];
  readonly flopsPerSample: number;
}

/** Returns the training loop over this rank's micro-batches. */
export function newTrainer(parts: NewTrainerOptions): Trainer<NumberedBatch> {
  const { configuration, part, optimizer, lossScaler, losses, lossesOfAbsentRanks = [], batches } = parts;
  const { progress, extensions } = parts;
  const { training, parallel, model } = configuration;
  return new Trainer({
    pipeline: part.pipeline,
    optimizer,
    lossScaler,
    losses,
    lossesOfAbsentRanks,
    batches,
    ...makeLearningRates(configuration),
    microBatches: planMicroBatches(configuration),
    device: parallel.device,
    sequenceLength: model.sequenceLength,
    flopsPerSample: parts.flopsPerSample,
    trainIterations: training.trainIterations,
    iterationsToSkip: new Set(training.iterationsToSkip),
    extensions: extensions.filter((extension) => extension !== undefined),
    ...(progress === undefined ? {} : { progress }),
  });
}

function makeLearningRates({
  optimizer: { learningRate, decoupledLearningRate },
}: PretrainingConfiguration): Pick<TrainerOptions<NumberedBatch>, 'learningRate' | 'decoupledLearningRate'> {
  const { unit, ...options } = learningRate;
  const makeRate = (extremes: typeof decoupledLearningRate): LearningRate => {
    const schedule = new LearningRateSchedule({ ...options, ...extremes });
    return ({ numUpdates, consumedSamples }) =>
      schedule.at(unit === 'samples' ? consumedSamples : numUpdates);
  };
  return {
    learningRate: makeRate(undefined),
    decoupledLearningRate: decoupledLearningRate && makeRate(decoupledLearningRate),
  };
}

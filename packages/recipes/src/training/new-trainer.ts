import type { PretrainingConfiguration } from '@mtl/configuration';
import type { NumberedBatch } from '@mtl/data';
import { LearningRateSchedule } from '@mtl/optimizer';
import type {
  LearningRate,
  LossKind,
  Trainer,
  TrainerExtension,
  TrainerOptions,
  TrainingProgress,
} from '@mtl/trainer';
import type { ModelChunk } from '../models/model-chunk.js';
import type { AssembledTraining } from './assembled-training.js';
import { microBatchesOf } from './micro-batches-of.js';

export interface NewTrainerOptions {
  readonly configuration: PretrainingConfiguration;
  readonly assembled: AssembledTraining<NumberedBatch, ModelChunk<NumberedBatch>>;
  readonly losses: readonly LossKind<NumberedBatch>[];
  /** See `TrainerOptions`. */
  readonly lossesOfAbsentRanks?: readonly string[];
  /** This rank's micro-batches. */
  readonly batches: AsyncIterator<NumberedBatch>;
  readonly progress: TrainingProgress | undefined;
  /** What joins the loop; undefined ones do not. */
  readonly extensions: readonly (TrainerExtension | undefined)[];
  readonly flopsPerSample: number;
}

/** The loop of a training run over this rank's micro-batches. */
export function newTrainer(parts: NewTrainerOptions): Trainer<NumberedBatch> {
  const { configuration, assembled, losses, lossesOfAbsentRanks = [], batches } = parts;
  const { progress, extensions } = parts;
  const { training, parallel, model } = configuration;
  return assembled.trainer({
    losses,
    lossesOfAbsentRanks,
    batches,
    ...learningRatesOf(configuration),
    microBatches: microBatchesOf(configuration),
    device: parallel.device,
    sequenceLength: model.sequenceLength,
    flopsPerSample: parts.flopsPerSample,
    trainIterations: training.trainIterations,
    iterationsToSkip: new Set(training.iterationsToSkip),
    extensions: extensions.filter((extension) => extension !== undefined),
    ...(progress === undefined ? {} : { progress }),
  });
}

function learningRatesOf({
  optimizer: { learningRate, decoupledLearningRate },
}: PretrainingConfiguration): Pick<TrainerOptions<NumberedBatch>, 'learningRate' | 'decoupledLearningRate'> {
  const { unit, ...options } = learningRate;
  const rateOf = (extremes: typeof decoupledLearningRate): LearningRate => {
    const schedule = new LearningRateSchedule({ ...options, ...extremes });
    return ({ numUpdates, consumedSamples }) =>
      schedule.at(unit === 'samples' ? consumedSamples : numUpdates);
  };
  return {
    learningRate: rateOf(undefined),
    decoupledLearningRate: decoupledLearningRate && rateOf(decoupledLearningRate),
  };
}

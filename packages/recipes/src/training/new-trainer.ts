import type { PretrainingConfiguration } from '@mtl/configuration';
import type { NumberedBatch } from '@mtl/data';
import { LearningRateSchedule, type ModelOptimizer } from '@mtl/optimizer';
import type { StepListener } from '@mtl/pipeline';
import type {
  DeviceClock,
  LearningRate,
  LossKind,
  StepGuard,
  StepRerun,
  Trainer,
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
  readonly profiler: StepListener | undefined;
  readonly deviceClock?: DeviceClock | undefined;
  readonly guard?: StepGuard | undefined;
  readonly rerun?: StepRerun | undefined;
  readonly flopsPerSample: number;
  readonly onGradients: ((optimizer: ModelOptimizer, iteration: number) => void | Promise<void>) | undefined;
}

/** The loop of a training run over this rank's micro-batches. */
export function newTrainer(parts: NewTrainerOptions): Trainer<NumberedBatch> {
  const { configuration, assembled, losses, lossesOfAbsentRanks = [], batches } = parts;
  const { progress, profiler, deviceClock, guard, rerun, onGradients } = parts;
  const { training, parallel, model } = configuration;
  return assembled.trainer({
    losses,
    lossesOfAbsentRanks,
    batches,
    profiler,
    deviceClock,
    guard,
    rerun,
    ...learningRatesOf(configuration),
    microBatches: microBatchesOf(configuration),
    device: parallel.device,
    sequenceLength: model.sequenceLength,
    flopsPerSample: parts.flopsPerSample,
    trainIterations: training.trainIterations,
    iterationsToSkip: new Set(training.iterationsToSkip),
    onGradients: onGradients && ((iteration) => onGradients(assembled.optimizer, iteration)),
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

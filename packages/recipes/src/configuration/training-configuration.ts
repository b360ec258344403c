import { ConfigurationError } from '@mtl/errors';
import { NumMicroBatches } from '@mtl/optimizer';
import { pipelineSchedule } from '../build/pipeline-schedule.js';
import type {
  ModelConfiguration,
  ParallelConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { recomputeConfiguration } from './recompute-configuration.js';

export interface TrainingConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: ModelConfiguration;
  readonly parallel: ParallelConfiguration;
}

/**
 * Batches, steps, precision and recomputation.
 *
 * @throws ConfigurationError those of schedules (`MTL_SCHEDULE_...`), `MTL_BATCH_SIZE`,
 *   `MTL_RAMPUP_BATCH_SIZE`, `MTL_TRAIN_ITERS`, `MTL_RECOMPUTE`, `MTL_FLAG_CONFLICT`, `MTL_FLAG_NEEDS`,
 *   `MTL_FLAG_REQUIRED`.
 */
export function trainingConfiguration(options: TrainingConfigurationOptions): TrainingConfiguration {
  const { flags, parallel } = options;
  const { dataParallelSize } = parallel;
  const microBatchSize = flags.required('micro-batch-size');
  const globalBatchSize = flags.get('global-batch-size') ?? microBatchSize * dataParallelSize;
  const rampup = rampupOf(flags);
  const batches = new NumMicroBatches({
    globalBatchSize,
    microBatchSize,
    dataParallelSize,
    ...(rampup === undefined ? {} : { rampup }),
  });
  const numMicroBatches = globalBatchSize / (microBatchSize * dataParallelSize);
  // a schedule that does not fit any step of the run is refused by itself, before the first one
  for (const count of batches.countsOfMicroBatches()) pipelineSchedule(parallel, count);
  const trainSamples = flags.get('train-samples');
  const exitInterval = flags.get('exit-interval');
  const exitDurationMinutes = flags.get('exit-duration-in-mins');
  return {
    microBatchSize,
    globalBatchSize,
    numMicroBatches,
    ...(rampup === undefined ? {} : { rampup }),
    trainIterations: trainIterationsOf(flags, batches),
    ...(trainSamples === undefined ? {} : { trainSamples }),
    ...(exitInterval === undefined ? {} : { exitInterval }),
    ...(exitDurationMinutes === undefined ? {} : { exitDurationMinutes }),
    evalInterval: flags.required('eval-interval'),
    evalIterations: flags.required('eval-iters'),
    seed: flags.required('seed'),
    precision: precisionOf(flags),
    recompute: recomputeConfiguration(options),
  };
}

function rampupOf(flags: FlagReader): TrainingConfiguration['rampup'] {
  const words = flags.get('rampup-batch-size');
  if (words === undefined) return undefined;
  if (flags.get('train-samples') === undefined) {
    flags.needs(
      'rampup-batch-size',
      '--train-samples',
      'counts samples, but training is counted in iterations',
    );
  }
  const [start, increment, samples] = words as [number, number, number];
  return { start, increment, samples };
}

function trainIterationsOf(flags: FlagReader, batches: NumMicroBatches): number {
  const trainSamples = flags.get('train-samples');
  if (trainSamples === undefined) return flags.required('train-iters');
  if (flags.get('train-iters') !== undefined) {
    flags.conflict({
      flags: ['train-iters', 'train-samples'],
      why: 'training is counted in one or the other',
    });
  }
  const iterations = batches.iterationsFor(trainSamples);
  if (iterations > 0) return iterations;
  const { globalBatchSize } = batches.at(0);
  throw new ConfigurationError(
    'MTL_TRAIN_ITERS',
    `${flags.written('train-samples')} is less than one global batch`,
    {
      expected: `${globalBatchSize} samples or more`,
      remedy: `pass --train-samples ${globalBatchSize}`,
    },
  );
}

function precisionOf(flags: FlagReader): TrainingConfiguration['precision'] {
  if (flags.required('bf16') && flags.required('fp16')) {
    flags.conflict({ flags: ['bf16', 'fp16'], why: 'there is one precision to compute in' });
  }
  if (flags.required('bf16')) return 'bf16';
  return flags.required('fp16') ? 'fp16' : 'fp32';
}

import { ConfigurationError } from '@mtl/errors';
import { NumMicroBatches } from '@mtl/optimizer';
import type {
  ConversationSamples,
  ModelConfiguration,
  ParallelConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import { scheduleOfStep } from '../schedules/schedule-of-step.js';
import type { FlagReader } from './flag-reader.js';
import { inWordsOfFlags } from './in-words-of-flags.js';
import { recomputeConfiguration } from './recompute-configuration.js';

export interface TrainingConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: ModelConfiguration;
  readonly parallel: ParallelConfiguration;
  /** Where conversations are learnt from: the samples of an epoch. */
  readonly conversations?: ConversationSamples | undefined;
}

/**
 * Batches, steps, precision and recomputation.
 *
 * @throws ConfigurationError those of schedules (`MTL_SCHEDULE_...`), `MTL_BATCH_SIZE`,
 *   `MTL_RAMPUP_BATCH_SIZE`, `MTL_TRAIN_ITERS`, `MTL_FLAG_VALUE`, `MTL_RECOMPUTE`, `MTL_FLAG_CONFLICT`,
 *   `MTL_FLAG_NEEDS`, `MTL_FLAG_REQUIRED`.
 */
export function trainingConfiguration(options: TrainingConfigurationOptions): TrainingConfiguration {
  const { flags, parallel } = options;
  const { dataParallelSize } = parallel;
  const microBatchSize = flags.required('micro-batch-size');
  const globalBatchSize = flags.get('global-batch-size') ?? microBatchSize * dataParallelSize;
  const rampup = rampupOf(flags);
  const { start } = flags;
  const sizes = { globalBatchSize, microBatchSize, dataParallelSize };
  const batches = inWordsOfFlags(
    () =>
      new NumMicroBatches({
        ...sizes,
        ...(rampup === undefined ? {} : { rampup }),
        consumedSamples: start?.consumedSamples,
      }),
  );
  if (rampup !== undefined && flags.get('epochs') !== undefined)
    flags.conflict({ flags: ['epochs', 'rampup-batch-size'], why: 'epochs are of batches of one size' });
  if (rampup !== undefined && flags.get('train-samples') === undefined) refuseIterations(flags, batches);
  const numMicroBatches = globalBatchSize / (microBatchSize * dataParallelSize);
  // a schedule that does not fit any step of the run is refused here, before the first step
  for (const count of batches.countsOfMicroBatches()) scheduleOfStep(parallel, count);
  const trainSamples = flags.get('train-samples');
  const length = lengthOf(options, batches);
  const iterationsToSkip = iterationsToSkipOf(flags, length);
  const exitInterval = flags.get('exit-interval');
  const exitDurationMinutes = flags.get('exit-duration-in-mins');
  return {
    microBatchSize,
    globalBatchSize,
    numMicroBatches,
    ...(rampup === undefined ? {} : { rampup }),
    ...(start === undefined ? {} : { start }),
    ...length,
    ...(iterationsToSkip === undefined ? {} : { iterationsToSkip }),
    ...(trainSamples === undefined ? {} : { trainSamples }),
    ...(exitInterval === undefined ? {} : { exitInterval }),
    ...(exitDurationMinutes === undefined ? {} : { exitDurationMinutes }),
    seed: flags.required('seed'),
    precision: precisionOf(flags),
    recompute: recomputeConfiguration(options),
  };
}

/** @throws ConfigurationError `MTL_FLAG_VALUE` for one that the run does not have */
function iterationsToSkipOf(
  flags: FlagReader,
  { trainIterations }: TrainingLength,
): readonly number[] | undefined {
  const iterations = flags.get('iterations-to-skip');
  const outside = iterations?.find((iteration) => iteration > trainIterations);
  if (outside === undefined) return iterations;
  throw new ConfigurationError(
    'MTL_FLAG_VALUE',
    `${flags.written('iterations-to-skip')}: the training run has no step ${outside}`,
    {
      expected: `whole numbers from 1 to ${trainIterations}`,
      remedy: `leave ${outside} out`,
      details: { flag: 'iterations-to-skip', value: outside },
    },
  );
}

function rampupOf(flags: FlagReader): TrainingConfiguration['rampup'] {
  const words = flags.get('rampup-batch-size');
  if (words === undefined) return undefined;
  const [start, increment, samples] = words as [number, number, number];
  return { start, increment, samples };
}

/** A batch that grows needs everything counted in samples: the error has the whole replacement. */
function refuseIterations(flags: FlagReader, batches: NumMicroBatches): never {
  const { globalBatchSize } = batches.at(Number.MAX_SAFE_INTEGER);
  const counted = [
    ['train-iters', 'train-samples', (steps: number) => batches.samplesAfter(steps)],
    ['lr-decay-iters', 'lr-decay-samples', (steps: number) => batches.samplesAfter(steps)],
    ['lr-warmup-iters', 'lr-warmup-samples', (steps: number) => batches.samplesAfter(steps)],
    // the last phase of the schedule, with the full batch
    ['lr-wsd-decay-iters', 'lr-wsd-decay-samples', (steps: number) => steps * globalBatchSize],
  ] as const;
  const inForce = counted.flatMap(([name, replacement, samplesOf]) => {
    const steps = flags.get(name);
    return steps === undefined || steps === 0
      ? []
      : [{ given: `--${name} ${steps}`, instead: `--${replacement} ${samplesOf(steps)}` }];
  });
  const instead = inForce.map((one) => one.instead).join(' ');
  throw new ConfigurationError(
    'MTL_FLAG_NEEDS',
    `${flags.written('rampup-batch-size')} counts samples, but training is counted in iterations`,
    {
      expected: instead,
      remedy: `replace ${inForce.map(({ given }) => given).join(' ')} by ${instead}, which is as many steps`,
      details: { flag: 'rampup-batch-size', instead },
    },
  );
}

interface TrainingLength
  extends Pick<TrainingConfiguration, 'trainIterations' | 'evalInterval' | 'evalIterations'> {}

/**
 * Steps of the run and of its evaluations. With conversations --epochs counts the steps; unless flags say
 * otherwise, all that are there to evaluate on are evaluated on after every epoch.
 */
function lengthOf(options: TrainingConfigurationOptions, batches: NumMicroBatches): TrainingLength {
  const { flags, conversations } = options;
  const [evalInterval, evalIterations] = [flags.required('eval-interval'), flags.required('eval-iters')];
  const epochs = flags.get('epochs');
  if (conversations === undefined) {
    return { trainIterations: trainIterationsOf(flags, batches), evalInterval, evalIterations };
  }
  const { globalBatchSize } = batches.at(Number.MAX_SAFE_INTEGER);
  const stepsOf = (samples: number): number => Math.ceil(samples / globalBatchSize);
  const stepsOfEpoch = stepsOf(conversations.numTrain);
  const all = stepsOf(conversations.numValidation);
  const { iteration, consumedSamples } = flags.start ?? { iteration: 0, consumedSamples: 0 };
  // a checkpoint may have been trained with other batches: what counts is how often each sample was seen
  const stepsOfEpochs = (epochs: number): number =>
    iteration + Math.max(0, epochs * stepsOfEpoch - Math.floor(consumedSamples / globalBatchSize));
  return {
    trainIterations:
      epochs === undefined ? trainIterationsOf(flags, batches) : stepsOfEpochs(refusingOthers(flags, epochs)),
    evalInterval: flags.isDefault('eval-interval') ? stepsOfEpoch : evalInterval,
    evalIterations: flags.isDefault('eval-iters') ? all : Math.min(evalIterations, all),
  };
}

/** @throws ConfigurationError `MTL_FLAG_CONFLICT` where the length is given in another way too */
function refusingOthers(flags: FlagReader, epochs: number): number {
  for (const name of ['train-iters', 'train-samples'] as const) {
    if (flags.get(name) === undefined) continue;
    flags.conflict({ flags: ['epochs', name], why: 'training is counted in one or the other' });
  }
  return epochs;
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
  const iterations = batches.iterationsFor(trainSamples, flags.start);
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

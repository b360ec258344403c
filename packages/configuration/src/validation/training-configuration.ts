import { ConfigurationError } from '@mtl/errors';
import type { Recomputation } from '@mtl/models';
import { NumMicroBatches } from '@mtl/optimizer';
import { withoutUndefined } from '../flags/flag-values.js';
import { trainingFlags } from '../flags/training-flags.js';
import type {
  ConversationSamples,
  ModelConfiguration,
  ParallelConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import { scheduleOfStep } from '../strategies/pipeline-schedule.js';
import { numSharesOfBatch } from '../strategies/strategies.js';
import { checkMicroBatches } from './check-sizes.js';
import { type FlagReader, inWordsOfFlags } from './flag-reader.js';

export interface RecomputeConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: Pick<ModelConfiguration, 'numLayers'>;
  readonly parallel: LayersOfChunks;
}

type LayersOfChunks = Pick<
  ParallelConfiguration,
  'layerLayout' | 'pipelineModelParallelSize' | 'numVirtualStages'
>;

/**
 * Returns the activations that the backward pass recomputes, from the flags of pretraining or fine-tuning.
 *
 * @throws ConfigurationError `MTL_RECOMPUTE`, `MTL_FLAG_NEEDS`
 */
export function recomputeConfiguration(options: RecomputeConfigurationOptions): Recomputation {
  const { flags, model, parallel } = options;
  const granularity = flags.get('recompute-granularity');
  const modules = flags.get('recompute-modules');
  const needsChoice = modules?.some((name) => name !== 'core_attn' && name !== 'moe_act') === true;
  if (needsChoice && granularity !== 'selective') {
    flags.needs('recompute-modules', '--recompute-granularity selective', 'names parts of layers');
  }
  const details = (['recompute-method', 'recompute-num-layers'] as const).filter(
    (name) => flags.get(name) !== undefined,
  );
  if (granularity !== 'full') {
    const [detail] = details;
    if (detail !== undefined) {
      flags.needs(detail, '--recompute-granularity full', 'sets how whole layers are recomputed');
    }
    if (granularity !== 'selective') return { granularity: 'none' };
    return { granularity, ...(modules !== undefined && { modules }) };
  }
  const method = flags.get('recompute-method');
  if (method === undefined) {
    return flags.needs(
      'recompute-granularity',
      '--recompute-method uniform or block',
      'does not say which layers',
    );
  }
  const numLayers = flags.get('recompute-num-layers') ?? 1;
  const layersPerChunk = mostLayersOfChunk(model, parallel);
  if (numLayers > layersPerChunk) {
    flags.refuse('recompute-num-layers', `is more than the ${layersPerChunk} layers of a chunk`, {
      code: 'MTL_RECOMPUTE',
      expected: `1 to ${layersPerChunk}`,
      remedy: `pass --recompute-num-layers ${layersPerChunk}`,
    });
  }
  return { granularity, method, numLayers };
}

/**
 * Returns an upper bound for the number of layers in a chunk. The exact number in a balanced layout depends
 * on the size of the vocabulary, which is not known yet.
 */
function mostLayersOfChunk(
  { numLayers }: Pick<ModelConfiguration, 'numLayers'>,
  { layerLayout, pipelineModelParallelSize, numVirtualStages }: LayersOfChunks,
): number {
  if (typeof layerLayout !== 'string') return Math.max(...layerLayout);
  const numChunks = pipelineModelParallelSize * numVirtualStages;
  return layerLayout === 'even' ? numLayers / numChunks : Math.max(1, numLayers - numChunks + 1);
}

export interface TrainingConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: ModelConfiguration;
  readonly parallel: ParallelConfiguration;
  /** The sample counts of an epoch, if the run is trained on conversations. */
  readonly conversations?: ConversationSamples | undefined;
}

/**
 * Returns the settings of batches, steps, precision and recomputation.
 *
 * @throws ConfigurationError with the codes of schedules (`MTL_SCHEDULE_...`), `MTL_BATCH_SIZE`,
 *   `MTL_RAMPUP_BATCH_SIZE`, `MTL_TOO_LARGE`, `MTL_TRAIN_ITERS`, `MTL_FLAG_VALUE`, `MTL_RECOMPUTE`,
 *   `MTL_FLAG_CONFLICT`, `MTL_FLAG_NEEDS`, `MTL_FLAG_REQUIRED`.
 */
export function trainingConfiguration(options: TrainingConfigurationOptions): TrainingConfiguration {
  const { flags, parallel } = options;
  const numShares = numSharesOfBatch(parallel);
  const microBatchSize = flags.required('micro-batch-size');
  const globalBatchSize = flags.get('global-batch-size') ?? microBatchSize * numShares;
  const rampup = readRampup(flags);
  const { start } = flags;
  const sizes = { globalBatchSize, microBatchSize, numShares };
  const batches = inWordsOfFlags(
    () =>
      new NumMicroBatches({
        ...sizes,
        ...withoutUndefined({ rampup }),
        consumedSamples: start?.consumedSamples,
      }),
  );
  if (rampup !== undefined && flags.get('epochs') !== undefined)
    flags.conflict({ flags: ['epochs', 'rampup-batch-size'], why: 'epochs are of batches of one size' });
  if (rampup !== undefined && flags.get('train-samples') === undefined) refuseIterations(flags, batches);
  const numMicroBatches = globalBatchSize / (microBatchSize * numShares);
  checkMicroBatches(flags, {
    numMicroBatches,
    pipelineSize: parallel.pipelineModelParallelSize,
    counts: () => batches.countsOfMicroBatches(),
  });
  // builds the schedules of all step sizes now, to reject an impossible schedule before the first step
  for (const count of batches.countsOfMicroBatches()) scheduleOfStep(parallel, count);
  const length = chooseLength(options, batches);
  checkIterationsToSkip(flags, length);
  return {
    ...flags.values(trainingFlags),
    microBatchSize,
    globalBatchSize,
    numMicroBatches,
    ...withoutUndefined({ rampup, start }),
    ...length,
    precision: choosePrecision(flags),
    recompute: recomputeConfiguration(options),
  };
}

/** @throws ConfigurationError `MTL_FLAG_VALUE` for an iteration to skip that is beyond the run's end */
function checkIterationsToSkip(flags: FlagReader, { trainIterations }: TrainingLength): void {
  const outside = flags.get('iterations-to-skip')?.find((iteration) => iteration > trainIterations);
  if (outside === undefined) return;
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

function readRampup(flags: FlagReader): TrainingConfiguration['rampup'] {
  const words = flags.get('rampup-batch-size');
  if (words === undefined) return undefined;
  const [start, increment, samples] = words as [number, number, number];
  return { start, increment, samples };
}

/**
 * Rejects a length in iterations for a run with batch size ramp-up, in which all lengths must be in samples.
 * The remedy contains the replacements of all such flags.
 */
function refuseIterations(flags: FlagReader, batches: NumMicroBatches): never {
  const { globalBatchSize } = batches.at(Number.MAX_SAFE_INTEGER);
  const counted = [
    ['train-iters', 'train-samples', (steps: number) => batches.samplesAfter(steps)],
    ['lr-decay-iters', 'lr-decay-samples', (steps: number) => batches.samplesAfter(steps)],
    ['lr-warmup-iters', 'lr-warmup-samples', (steps: number) => batches.samplesAfter(steps)],
    // the last phase of the schedule has full batches
    ['lr-wsd-decay-iters', 'lr-wsd-decay-samples', (steps: number) => steps * globalBatchSize],
  ] as const;
  const inForce = counted.flatMap(([name, replacement, countSamples]) => {
    const steps = flags.get(name);
    return steps === undefined || steps === 0
      ? []
      : [{ given: `--${name} ${steps}`, instead: `--${replacement} ${countSamples(steps)}` }];
  });
  const instead = inForce.map((one) => one.instead).join(' ');
  flags.refuse('rampup-batch-size', 'counts samples, but training is counted in iterations', {
    code: 'MTL_FLAG_NEEDS',
    expected: instead,
    remedy: `replace ${inForce.map(({ given }) => given).join(' ')} by ${instead}, which is the same number of steps`,
    details: { flag: 'rampup-batch-size', instead },
  });
}

interface TrainingLength
  extends Pick<TrainingConfiguration, 'trainIterations' | 'evalInterval' | 'evalIterations'> {}

/**
 * Returns how many steps the run and its evaluations have. For conversations, --epochs determines the steps.
 * By default, the run evaluates all evaluation conversations after every epoch.
 */
function chooseLength(options: TrainingConfigurationOptions, batches: NumMicroBatches): TrainingLength {
  const { flags, conversations } = options;
  const [evalInterval, evalIterations] = [flags.required('eval-interval'), flags.required('eval-iters')];
  const epochs = flags.get('epochs');
  if (conversations === undefined) {
    return { trainIterations: countTrainIterations(flags, batches), evalInterval, evalIterations };
  }
  const { globalBatchSize } = batches.at(Number.MAX_SAFE_INTEGER);
  const countSteps = (samples: number): number => Math.ceil(samples / globalBatchSize);
  const stepsOfEpoch = countSteps(conversations.numTrain);
  const all = countSteps(conversations.numValidation);
  const { iteration, consumedSamples } = flags.start ?? { iteration: 0, consumedSamples: 0 };
  // a resumed checkpoint may have been trained with a different batch size, so completed epochs are counted
  // in samples
  const stepsOfEpochs = (epochs: number): number =>
    iteration + Math.max(0, epochs * stepsOfEpoch - Math.floor(consumedSamples / globalBatchSize));
  return {
    trainIterations:
      epochs === undefined
        ? countTrainIterations(flags, batches)
        : stepsOfEpochs(refusingOthers(flags, epochs)),
    evalInterval: flags.isDefault('eval-interval') ? stepsOfEpoch : evalInterval,
    evalIterations: flags.isDefault('eval-iters') ? all : Math.min(evalIterations, all),
  };
}

/**
 * Returns `epochs`.
 *
 * @throws ConfigurationError `MTL_FLAG_CONFLICT` if a second flag also sets the length
 */
function refusingOthers(flags: FlagReader, epochs: number): number {
  for (const name of ['train-iters', 'train-samples'] as const) {
    if (flags.get(name) === undefined) continue;
    flags.conflict({ flags: ['epochs', name], why: 'training is counted in one or the other' });
  }
  return epochs;
}

function countTrainIterations(flags: FlagReader, batches: NumMicroBatches): number {
  const trainSamples = flags.get('train-samples');
  if (trainSamples === undefined) return flags.required('train-iters');
  const iterations = batches.iterationsFor(trainSamples, flags.start);
  if (iterations > 0) return iterations;
  const { globalBatchSize } = batches.at(0);
  flags.refuse('train-samples', 'is less than one global batch', {
    code: 'MTL_TRAIN_ITERS',
    expected: `${globalBatchSize} samples or more`,
    remedy: `pass --train-samples ${globalBatchSize}`,
  });
}

function choosePrecision(flags: FlagReader): TrainingConfiguration['precision'] {
  if (flags.required('bf16')) return 'bf16';
  return flags.required('fp16') ? 'fp16' : 'fp32';
}

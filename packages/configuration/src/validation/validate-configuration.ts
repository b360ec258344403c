import {
  checkArgument,
  checkOptions,
  type OptionChecks,
  objectOption,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import { adapterConfiguration } from '../adapters/adapter-configuration.js';
import { bertSettings, modelConfiguration } from '../architecture/model-configuration.js';
import { describeGptModel } from '../architecture/models-of-configuration.js';
import type { ResolvedFlags } from '../command-line/resolve-flags.js';
import { numProcessesOption, resolvedFlagsOption } from '../options/option-checks.js';
import type {
  CheckpointConfiguration,
  ConversationSamples,
  PretrainingConfiguration,
} from '../pretraining-configuration.js';
import { flagSchemas } from '../schema/flag-schema.js';
import { checkRequiredFlags } from './check-required-flags.js';
import { checkLayersOfPipeline, checkSizes } from './check-sizes.js';
import { checkpointConfiguration } from './checkpoint-configuration.js';
import { dataConfiguration } from './data-configuration.js';
import { FlagReader } from './flag-reader.js';
import { loggingConfiguration } from './logging-configuration.js';
import { optimizerConfiguration } from './optimizer-configuration.js';
import { parallelConfiguration } from './parallel-configuration.js';
import { spikeConfiguration } from './spike-configuration.js';
import { trainingConfiguration } from './training-configuration.js';

export interface ValidateConfigurationOptions {
  /** Number of processes of the run. Default: 1. */
  readonly worldSize?: number;
  /**
   * The number of samples in an epoch, if the run trains on conversations. Needed to convert --epochs to
   * steps.
   */
  readonly conversations?: ConversationSamples | undefined;
}

const checks: OptionChecks<ValidateConfigurationOptions> = {
  worldSize: numProcessesOption,
  conversations: objectOption('the numbers of samples of conversations', {
    numTrain: required(wholeNumberOption(0)),
    numValidation: required(wholeNumberOption(0)),
  }),
};

/**
 * Converts flags to the configuration of a training run. Derives missing values and rejects invalid
 * combinations. An error reports one problem, with the nearest valid values.
 *
 * @throws ConfigurationError with one of these codes: `MTL_OPTION`, `MTL_FLAG_REQUIRED`, `MTL_FLAG_CONFLICT`,
 *   `MTL_FLAG_NEEDS`, `MTL_HEADS`, `MTL_EXPERTS`, `MTL_SEQUENCE_LENGTH`, `MTL_TENSOR_PARALLEL_SIZE`,
 *   `MTL_EXPERT_PARALLEL_SIZE`, `MTL_PIPELINE_SIZE`, `MTL_WORLD_SIZE`, `MTL_BATCH_SIZE`,
 *   `MTL_RAMPUP_BATCH_SIZE`, `MTL_TRAIN_ITERS`, `MTL_RECOMPUTE`, `MTL_TOO_LARGE`, `MTL_LEARNING_RATE`,
 *   `MTL_LOSS_SCALE`, `MTL_SPLIT`; also the codes of `adapterConfiguration`.
 */
export function validateConfiguration(
  resolved: ResolvedFlags & { readonly notices?: readonly string[]; readonly argv?: readonly string[] },
  how: ValidateConfigurationOptions = {},
): PretrainingConfiguration {
  checkArgument(resolved, { name: 'flags', check: resolvedFlagsOption });
  checkOptions(how, { of: 'validateConfiguration', checks });
  const { worldSize = 1, conversations } = how;
  const flags = new FlagReader(resolved);
  const notices = [...(resolved.notices ?? [])];
  const checkpoint = checkpointConfiguration(flags);
  checkRequiredFlags(flags, { preset: resolved.preset, argv: resolved.argv ?? [] });
  flags.checkRelations(flagSchemas);
  const model = modelConfiguration(flags, notices);
  // a BERT removes padding and pads the remaining tokens to a multiple of the number of shards, so any length
  // is valid
  const sharded = resolved.model === 'bert' ? { ...model, sequenceLength: undefined } : model;
  checkLayersOfPipeline(flags);
  const parallel = parallelConfiguration({ flags, model: sharded, worldSize, notices });
  const training = trainingConfiguration({ flags, model, parallel, conversations });
  checkSizes({ flags, model, training, parallel });
  // adapters do not depend on the vocabulary size, so any value will do if the size is unknown
  const adapted = adapterConfiguration(flags, () => describeGptModel(model, flags.vocabularySize ?? 1));
  const optimizer = optimizerConfiguration({ flags, training, notices });
  const data = dataConfiguration({ flags, training, notices });
  return deepFreeze({
    kind: resolved.model,
    model,
    ...adapted,
    ...(resolved.model === 'bert' ? { bert: bertSettings(flags) } : {}),
    training,
    optimizer,
    spikes: spikeConfiguration({ flags, notices }),
    data,
    parallel,
    checkpoint: withIntervalOfEvaluation(checkpoint, { data, training }),
    logging: loggingConfiguration(flags, training),
    flags: resolved.values,
    sources: resolved.sources,
    preset: resolved.preset,
    notices,
  });
}

/**
 * Sets the default save interval to the evaluation interval if the run stops early, so that the best
 * evaluated model is saved.
 */
function withIntervalOfEvaluation(
  checkpoint: CheckpointConfiguration,
  { data, training }: Pick<PretrainingConfiguration, 'data' | 'training'>,
): CheckpointConfiguration {
  const { save, saveInterval } = checkpoint;
  if (data.conversations?.patience === undefined || save === undefined || saveInterval !== undefined)
    return checkpoint;
  return { ...checkpoint, saveInterval: training.evalInterval };
}

/** Freezes plain objects and arrays recursively. A Map cannot be frozen, but its type is read-only. */
function deepFreeze<Value extends object>(value: Value): Value {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null && !(part instanceof Map)) deepFreeze(part);
  }
  return Object.freeze(value);
}

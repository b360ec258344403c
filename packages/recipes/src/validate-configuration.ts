import { checkpointConfiguration } from './configuration/checkpoint-configuration.js';
import { dataConfiguration } from './configuration/data-configuration.js';
import { FlagReader } from './configuration/flag-reader.js';
import { modelConfiguration } from './configuration/model-configuration.js';
import { optimizerConfiguration } from './configuration/optimizer-configuration.js';
import { parallelConfiguration } from './configuration/parallel-configuration.js';
import { trainingConfiguration } from './configuration/training-configuration.js';
import type { ResolvedFlags } from './flags/resolve-flags.js';
import type { GptConfiguration, LoggingConfiguration } from './gpt-configuration.js';

export interface ValidateConfigurationOptions {
  /** Processes of the run; 1 unless given. */
  readonly worldSize?: number;
}

/**
 * Turns flags into the configuration of a GPT training: fills in what follows from other flags, and refuses what
 * cannot work together, one error at a time, each with the nearest values that would.
 *
 * @throws ConfigurationError with one of these codes: `MTL_FLAG_REQUIRED`, `MTL_FLAG_CONFLICT`, `MTL_FLAG_NEEDS`,
 *   `MTL_HEADS`, `MTL_SEQUENCE_LENGTH`, `MTL_TENSOR_PARALLEL_SIZE`, `MTL_PIPELINE_SIZE`, `MTL_WORLD_SIZE`,
 *   `MTL_BATCH_SIZE`, `MTL_RAMPUP_BATCH_SIZE`, `MTL_TRAIN_ITERS`, `MTL_RECOMPUTE`, `MTL_LEARNING_RATE`,
 *   `MTL_LOSS_SCALE`, `MTL_SPLIT`.
 */
export function validateConfiguration(
  resolved: ResolvedFlags & { readonly notices?: readonly string[] },
  { worldSize = 1 }: ValidateConfigurationOptions = {},
): GptConfiguration {
  const flags = new FlagReader(resolved);
  const notices = [...(resolved.notices ?? [])];
  const model = modelConfiguration(flags);
  const parallel = parallelConfiguration({ flags, model, worldSize, notices });
  const training = trainingConfiguration({ flags, model, parallel });
  return deepFreeze({
    model,
    training,
    optimizer: optimizerConfiguration({ flags, training, notices }),
    data: dataConfiguration({ flags, training, notices }),
    parallel,
    checkpoint: checkpointConfiguration(flags),
    logging: loggingConfiguration(flags),
    flags: resolved.values,
    sources: resolved.sources,
    preset: resolved.preset,
    notices,
  });
}

function loggingConfiguration(flags: FlagReader): LoggingConfiguration {
  const tensorboardDirectory = flags.get('tensorboard-dir');
  const metricsJsonl = flags.get('metrics-jsonl');
  return {
    logInterval: flags.required('log-interval'),
    ...(tensorboardDirectory === undefined ? {} : { tensorboardDirectory }),
    ...(metricsJsonl === undefined ? {} : { metricsJsonl }),
  };
}

/** Freezes plain objects and arrays; a Map is left to its read-only type. */
function deepFreeze<Value extends object>(value: Value): Value {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null && !(part instanceof Map)) deepFreeze(part);
  }
  return Object.freeze(value);
}

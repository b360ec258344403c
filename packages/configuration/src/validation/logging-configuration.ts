import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import type { LoggingConfiguration, TrainingConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { trackingConfiguration } from './tracking-configuration.js';

/**
 * What a run reports, and where to.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS, MTL_PROFILE_STEPS, MTL_SERVICE_URL
 */
export function loggingConfiguration(
  flags: FlagReader,
  training: Pick<TrainingConfiguration, 'trainIterations'>,
): LoggingConfiguration {
  const tensorboardDirectory = flags.get('tensorboard-dir');
  const metricsJsonl = flags.get('metrics-jsonl');
  return {
    logInterval: flags.required('log-interval'),
    isVerbose: flags.required('verbose'),
    comparesWithPlan: flags.required('compare-with-plan'),
    samplesAtEvaluations: !flags.required('no-eval-samples'),
    ...(tensorboardDirectory === undefined ? {} : { tensorboardDirectory }),
    ...(metricsJsonl === undefined ? {} : { metricsJsonl }),
    ...trackingConfiguration(flags),
    ...profileOf(flags, training),
  };
}

function profileOf(
  flags: FlagReader,
  { trainIterations }: Pick<TrainingConfiguration, 'trainIterations'>,
): Pick<LoggingConfiguration, 'profile'> {
  const steps = flags.get('profile-steps');
  if (steps === undefined) {
    if (flags.isGiven('profile-trace')) {
      flags.needs('profile-trace', '--profile-steps FIRST LAST', 'is written of the steps that it names');
    }
    return {};
  }
  const [first, last] = steps as [number, number];
  if (first > last || last > trainIterations) {
    throw new ConfigurationError(
      'MTL_PROFILE_STEPS',
      `${flags.written('profile-steps')}: not a range of the ${trainIterations} steps of the training run`,
      {
        expected: `two numbers from 1 to ${trainIterations}, the first one not above the second`,
        remedy: `pass --profile-steps ${Math.min(first, last, trainIterations)} ${Math.min(Math.max(first, last), trainIterations)}`,
      },
    );
  }
  const save = flags.get('save');
  const file = flags.required('profile-trace');
  const isInSave = flags.isDefault('profile-trace') && save !== undefined;
  return { profile: { first, last, file: isInSave ? join(save, file) : file } };
}

import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { withoutUndefined } from '../flags/flag-values.js';
import { loggingFlags, trackingFlags } from '../flags/logging-flags.js';
import type { LoggingConfiguration, TrainingConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

/**
 * Returns the URL of a service without slashes at its end.
 *
 * @throws ConfigurationError MTL_SERVICE_URL for a protocol other than HTTP, and for a URL with a password,
 *   because the run folder would contain the password
 */
export function serviceUrl(
  given: string,
  { name, remedy }: { readonly name: string; readonly remedy: string },
): string {
  const expected = 'a URL such as https://host or http://host:5000, without a user and a password';
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    // a value with an @ may contain a password, so it is not shown
    const shown = given.includes('@') ? '(not shown)' : given;
    throw new ConfigurationError('MTL_SERVICE_URL', `${name} ${shown} is not the URL of a service`, {
      expected,
    });
  }
  const url = new URL(given);
  if (url.username !== '' || url.password !== '') {
    throw new ConfigurationError(
      'MTL_SERVICE_URL',
      `${name} ${url.protocol}//...@${url.host} contains a user`,
      {
        expected,
        remedy,
      },
    );
  }
  return given.replace(/\/+$/, '');
}

/** The tracking services, to which metrics are sent. */
export type TrackingConfiguration = Pick<LoggingConfiguration, 'wandb' | 'mlflow'>;

/**
 * Returns the tracking services that flags request.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS, MTL_SERVICE_URL
 */
export function trackingConfiguration(flags: FlagReader): TrackingConfiguration {
  flags.checkRelations(trackingFlags);
  return { ...configureWandb(flags), ...configureMlflow(flags) };
}

function configureWandb(flags: FlagReader): Pick<LoggingConfiguration, 'wandb'> {
  const project = flags.get('wandb-project');
  if (project === undefined) return {};
  const [name, entity] = [flags.get('wandb-exp-name'), flags.get('wandb-entity')];
  return { wandb: withoutUndefined({ project, name, entity }) };
}

function configureMlflow(flags: FlagReader): Pick<LoggingConfiguration, 'mlflow'> {
  const uri = flags.get('mlflow-tracking-uri');
  if (uri === undefined) return {};
  const remedy = 'set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment';
  const trackingUri = serviceUrl(uri, { name: '--mlflow-tracking-uri', remedy });
  const [experiment, name] = [flags.required('mlflow-experiment-name'), flags.get('mlflow-run-name')];
  return { mlflow: withoutUndefined({ trackingUri, experiment, name }) };
}

/**
 * Returns the settings of a run's reports.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS, MTL_PROFILE_STEPS, MTL_SERVICE_URL
 */
export function loggingConfiguration(
  flags: FlagReader,
  training: Pick<TrainingConfiguration, 'trainIterations'>,
): LoggingConfiguration {
  return {
    ...flags.values(loggingFlags),
    samplesAtEvaluations: !flags.required('no-eval-samples'),
    ...trackingConfiguration(flags),
    ...configureProfile(flags, training),
  };
}

function configureProfile(
  flags: FlagReader,
  { trainIterations }: Pick<TrainingConfiguration, 'trainIterations'>,
): Pick<LoggingConfiguration, 'profile'> {
  const steps = flags.get('profile-steps');
  if (steps === undefined) return {};
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

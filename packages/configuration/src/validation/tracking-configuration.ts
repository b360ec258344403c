import type { FlagName } from '../flags/flag-schema.js';
import type { LoggingConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { serviceUrl } from './service-url.js';

/** Services that metrics are sent to. */
export type TrackingConfiguration = Pick<LoggingConfiguration, 'wandb' | 'mlflow'>;

/**
 * The services that flags name.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS, MTL_SERVICE_URL
 */
export function trackingConfiguration(flags: FlagReader): TrackingConfiguration {
  return { ...wandbOf(flags), ...mlflowOf(flags) };
}

function wandbOf(flags: FlagReader): Pick<LoggingConfiguration, 'wandb'> {
  const project = flags.get('wandb-project');
  const [name, entity] = [flags.get('wandb-exp-name'), flags.get('wandb-entity')];
  if (project === undefined) {
    refuseAlone(flags, ['wandb-exp-name', 'wandb-entity'], '--wandb-project NAME');
    return {};
  }
  return {
    wandb: { project, ...(name === undefined ? {} : { name }), ...(entity === undefined ? {} : { entity }) },
  };
}

function mlflowOf(flags: FlagReader): Pick<LoggingConfiguration, 'mlflow'> {
  const uri = flags.get('mlflow-tracking-uri');
  const name = flags.get('mlflow-run-name');
  const experiment = flags.required('mlflow-experiment-name');
  if (uri === undefined) {
    refuseAlone(flags, ['mlflow-experiment-name', 'mlflow-run-name'], '--mlflow-tracking-uri URL');
    return {};
  }
  const remedy = 'set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment';
  const trackingUri = serviceUrl(uri, { name: '--mlflow-tracking-uri', remedy });
  return { mlflow: { trackingUri, experiment, ...(name === undefined ? {} : { name }) } };
}

/** Refuses flags of a service that no flag names. */
function refuseAlone(flags: FlagReader, names: readonly FlagName[], service: string): void {
  for (const name of names) if (flags.isGiven(name)) flags.needs(name, service, 'names no service by itself');
}

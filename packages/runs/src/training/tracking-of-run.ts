import { basename, resolve } from 'node:path';
import { serviceUrl, type TrackingConfiguration } from '@mtl/configuration/internal';
import { ConfigurationError } from '@mtl/errors';
import { readProxies } from '@mtl/hub/internal';
import { metricsPath } from '@mtl/run-records';
import { type TrackingSettings, TrackingSink, type WandbSettings } from '@mtl/tracking';
import { trackingCredentials } from '@mtl/tracking/internal';
import type { MetricsSink } from '@mtl/trainer';
import type { RunLog } from './run-log.js';

/** The tracking services of a run, determined by flags and the environment. */
interface TrackingOfRun {
  readonly settings: TrackingSettings;
  /** True for WANDB_MODE=offline or dryrun, which store metrics in files that can be sent later. */
  readonly isWandbOffline: boolean;
}

/** The settings in a run's configuration that determine its tracking services. */
export interface TrackedConfiguration {
  readonly logging: TrackingConfiguration;
  readonly checkpoint: {
    /** The run folder, which stores the metrics until they are sent. */
    readonly save?: string | undefined;
  };
}

type Environment = Readonly<Record<string, string | undefined>>;

const defaultWandbUrl = 'https://api.wandb.ai';
const modes = ['online', 'offline', 'disabled'] as const;

/**
 * Returns the services to which a run sends metrics; undefined if there are none. Reads and checks the
 * environment variables WANDB_MODE, WANDB_BASE_URL, WANDB_API_KEY (only whether it is set), and the proxies.
 *
 * @throws ConfigurationError MTL_WANDB_API_KEY, MTL_WANDB_MODE, MTL_SERVICE_URL, MTL_PROXY
 */
export function trackingOfRun(
  { logging, checkpoint }: TrackedConfiguration,
  environment: Environment,
): TrackingOfRun | undefined {
  const { save } = checkpoint;
  // a run without a folder sends no metrics
  if (save === undefined) return undefined;
  const nameOfFolder = basename(resolve(save));
  const mode = logging.wandb === undefined ? 'disabled' : readMode(environment);
  const wandb: WandbSettings | undefined =
    logging.wandb === undefined || mode === 'disabled'
      ? undefined
      : { ...logging.wandb, name: logging.wandb.name ?? nameOfFolder, baseUrl: wandbUrl(environment) };
  const { mlflow } = logging;
  if (wandb === undefined && mlflow === undefined) return undefined;
  const isWandbOffline = mode === 'offline';
  if (mlflow !== undefined || !isWandbOffline) readProxies(environment);
  if (wandb !== undefined && !isWandbOffline && trackingCredentials(environment).wandbKey === undefined)
    throw missingWandbKey();
  return {
    settings: { wandb, mlflow: mlflow && { ...mlflow, name: mlflow.name ?? nameOfFolder } },
    isWandbOffline,
  };
}

function missingWandbKey(): ConfigurationError {
  return new ConfigurationError('MTL_WANDB_API_KEY', 'WANDB_API_KEY is not set', {
    expected: 'the key of an account at wandb, in the environment',
    remedy:
      'copy it from https://wandb.ai/authorize and export WANDB_API_KEY=KEY; or export WANDB_MODE=offline: metrics are kept, and mtl runs send sends them once there is a key',
  });
}

function readMode({ WANDB_MODE: given }: Environment): (typeof modes)[number] {
  if (given === undefined || given === '') return 'online';
  // dryrun is the older name, which wandb's client still accepts
  const mode = given === 'dryrun' ? 'offline' : modes.find((name) => name === given);
  if (mode !== undefined) return mode;
  throw new ConfigurationError('MTL_WANDB_MODE', `WANDB_MODE=${given}: unknown mode`, {
    expected: `${modes.join(', ')}, or dryrun, which is offline`,
    remedy: 'unset it: metrics are then sent while the run trains',
  });
}

function wandbUrl({ WANDB_BASE_URL: given }: Environment): string {
  if (given === undefined || given === '') return defaultWandbUrl;
  return serviceUrl(given, { name: 'WANDB_BASE_URL', remedy: 'keep the key in WANDB_API_KEY' });
}

interface OpenTrackingOptions {
  readonly configuration: TrackedConfiguration;
  /** The run's log; undefined for a run without a folder. */
  readonly log: RunLog | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * Opens the sinks that send metrics to the services in the flags. Called only on rank 0.
 *
 * @throws the errors of `trackingOfRun`
 */
export async function openTracking(options: OpenTrackingOptions): Promise<readonly MetricsSink[]> {
  const { configuration, log, onMessage } = options;
  const { save: directory } = configuration.checkpoint;
  const tracking = trackingOfRun(configuration, process.env);
  if (tracking === undefined || directory === undefined || log === undefined) return [];
  return [
    await TrackingSink.open({
      directory,
      metricsPath: metricsPath(directory),
      ...tracking,
      credentials: trackingCredentials(process.env),
      run: log.tracked,
      onMessage: (text) => onMessage(`  note: ${text}`),
    }),
  ];
}

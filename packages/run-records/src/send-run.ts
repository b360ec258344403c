import { ConfigurationError } from '@mtl/errors';
import {
  checkOptions,
  functionOption,
  type OptionChecks,
  objectOption,
  required,
  textOption,
} from '@mtl/errors/options';
import { type DeliveryResult, sendKeptMetrics } from '@mtl/tracking';
import { trackingCredentials } from '@mtl/tracking/internal';
import { metricsPath } from './metrics-records.js';
import { readRun } from './read-run.js';
import { trackedRun } from './run-record.js';

export interface SendRunOptions {
  /** The run folder. */
  readonly directory: string;
  /** The environment variables, which contain the credentials for the services. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly onMessage: (text: string) => void;
}

const checks: OptionChecks<SendRunOptions> = {
  directory: required(textOption),
  environment: required(objectOption('variables by name, as process.env')),
  onMessage: required(functionOption),
};

/**
 * Sends the metrics of a finished run to tracking services that have not received them yet.
 *
 * @returns a result for each service
 * @throws ConfigurationError MTL_OPTION; MTL_RUN_RUNNING for a running run, which sends its own metrics;
 *   MTL_RUN_RECORD, MTL_TRACKING_NONE, MTL_TRACKING_STATE, MTL_WANDB_API_KEY
 */
export async function sendRun(options: SendRunOptions): Promise<readonly DeliveryResult[]> {
  checkOptions(options, { of: 'sendRun', checks });
  const { directory, environment, onMessage } = options;
  const { state, record } = await readRun(directory);
  if (state === 'running') {
    throw new ConfigurationError('MTL_RUN_RUNNING', `${directory} is a run under way`, {
      expected: 'a run that has ended: one under way sends its metrics itself',
      remedy: 'wait for its end',
    });
  }
  return await sendKeptMetrics({
    directory,
    metricsPath: metricsPath(directory),
    run: record === undefined ? { flags: {}, host: '', startedAt: 0 } : trackedRun(record),
    outcome: state === 'finished' || state === 'stopped' ? state : 'failed',
    credentials: trackingCredentials(environment),
    onMessage,
  });
}

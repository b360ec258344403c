import { ConfigurationError } from '@mtl/errors';
import { readProxies } from '@mtl/hub/internal';
import type { RunOutcome } from '@mtl/trainer';
import type { DeliveryResult, DeliveryTimes } from './delivery.js';
import { MetricsRows } from './metrics-rows.js';
import { openDeliveries, type TrackingCredentials } from './open-deliveries.js';
import type { TrackedRun } from './tracking-settings.js';
import { readTrackingState, trackingPath } from './tracking-state.js';

export interface SendKeptMetricsOptions {
  /** The run folder of a run that has ended. */
  readonly directory: string;
  readonly metricsPath: string;
  readonly run: TrackedRun;
  readonly outcome: RunOutcome;
  readonly credentials: TrackingCredentials;
  readonly onMessage: (text: string) => void;
  /** How long services may be unavailable before sending fails, in milliseconds. Default: a minute. */
  readonly graceMs?: number;
  readonly times?: DeliveryTimes;
}

/**
 * Sends the metrics of a run that the services did not accept while it ran.
 *
 * @returns a result for each service
 * @throws ConfigurationError MTL_TRACKING_NONE for a run that reported to no service; MTL_WANDB_API_KEY;
 *   MTL_TRACKING_STATE; MTL_PROXY
 */
export async function sendKeptMetrics(options: SendKeptMetricsOptions): Promise<readonly DeliveryResult[]> {
  const { directory, outcome, credentials, graceMs = 60_000 } = options;
  readProxies(process.env);
  const state = readTrackingState(directory);
  if (state === undefined) {
    throw new ConfigurationError('MTL_TRACKING_NONE', `${directory} has no ${trackingPath('')}`, {
      expected: 'the folder of a run that was trained with --wandb-project or --mlflow-tracking-uri',
      remedy: `go on with the run (--load ${directory}) and one of these flags: it sends all steps so far`,
    });
  }
  const total = await new MetricsRows(options.metricsPath).skip(Number.POSITIVE_INFINITY);
  for (const sent of [state.wandb, state.mlflow]) {
    // the service lacks some rows, so the end of the run must be reported to it again
    if (sent !== undefined && sent.rows < total) sent.isEnded = false;
  }
  if (state.wandb?.isEnded === false && credentials.wandbKey === undefined) throw missingWandbKey(directory);
  const { deliveries, giveUp } = openDeliveries({ ...options, state });
  for (const delivery of deliveries) delivery.finish(outcome);
  const timer = setTimeout(giveUp, graceMs);
  try {
    return await Promise.all(deliveries.map((delivery) => delivery.run()));
  } finally {
    clearTimeout(timer);
  }
}

function missingWandbKey(directory: string): ConfigurationError {
  return new ConfigurationError('MTL_WANDB_API_KEY', 'WANDB_API_KEY is not set', {
    expected: `the key of the account at wandb that gets the metrics of ${directory}`,
    remedy:
      'copy the key from https://wandb.ai/authorize and export WANDB_API_KEY=KEY; the metrics stay in the folder until they are sent',
  });
}

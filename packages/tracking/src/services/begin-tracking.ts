import { randomBytes } from 'node:crypto';
import { MetricsRows } from './metrics-rows.js';
import type { TrackingSettings } from './tracking-settings.js';
import {
  continuedState,
  readTrackingState,
  type TrackingState,
  writeTrackingState,
} from './tracking-state.js';

export interface BeginTrackingOptions {
  /** The run folder, where what services do not take is kept. */
  readonly directory: string;
  /** Its metrics.jsonl, which another sink writes. */
  readonly metricsPath: string;
  readonly settings: TrackingSettings;
}

/**
 * The state of a run that starts or goes on, in tracking.json of its folder: the runs that it names are gone
 * on with, others are new. A run that is resumed must have dropped the rows that it writes again.
 *
 * @throws ConfigurationError MTL_TRACKING_STATE; the error of a file that cannot be written
 */
export async function beginTracking(options: BeginTrackingOptions): Promise<TrackingState> {
  const { directory, metricsPath, settings } = options;
  const known = readTrackingState(directory);
  const state = continuedState(known, { settings, newId: () => randomBytes(4).toString('hex') });
  const total = await new MetricsRows(metricsPath).skip(Number.POSITIVE_INFINITY);
  for (const sent of [state.wandb, state.mlflow]) {
    // what was sent of them is sent again
    if (sent !== undefined) sent.rows = Math.min(sent.rows, total);
  }
  writeTrackingState(directory, state);
  return state;
}

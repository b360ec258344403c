import { TrackingSink, trackingCredentials } from '@mtl/tracking';
import type { MetricsSink } from '@mtl/trainer';
import { metricsPath } from '../records/metrics-path.js';
import type { RunLog } from '../records/run-log.js';
import { type TrackedConfiguration, trackingOfRun } from './tracking-of-run.js';

export interface OpenTrackingOptions {
  readonly configuration: TrackedConfiguration;
  /** Of a run that has a folder. */
  readonly log: RunLog | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * What sends metrics to the services that the flags name, if they name any; rank 0 calls it.
 *
 * @throws as `trackingOfRun`
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

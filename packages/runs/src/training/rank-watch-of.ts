import type { World } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { memoryStatistics } from '@mtl/kernels';
import type { TrainingProcesses } from '@mtl/run-parts';
import { DeviceClock, HostClock, RankWatch, type RankWatchOptions } from '@mtl/trainer';
import { waitedSeconds } from './waited-seconds.js';

/** How often ranks tell what they compute, and are compared. Default: as in every run. */
export type RankWatchTimes = Pick<RankWatchOptions, 'leastIntervalMs' | 'leastReportMs'>;

/**
 * What finds slow ranks; undefined for a process alone, and for GPUs that communicate through memory of the
 * host: what their hosts wait is not communication alone.
 */
export function rankWatchOf(
  { logging, parallel }: Pick<PretrainingConfiguration, 'logging' | 'parallel'>,
  {
    processes,
    hosts,
    world: joined,
    times,
  }: {
    readonly processes: TrainingProcesses;
    readonly hosts: readonly string[];
    /** The processes of the run, which on GPUs measure how long these wait for communication. */
    readonly world: World | undefined;
    readonly times?: RankWatchTimes | undefined;
  },
): RankWatch | undefined {
  const { groups, mesh } = processes;
  const { world } = groups;
  const { device } = parallel;
  const clock =
    joined?.deviceWaits !== undefined
      ? new DeviceClock({ waits: joined.deviceWaits })
      : device === 'cpu'
        ? new HostClock({ waitedSeconds: () => waitedSeconds(groups) })
        : undefined;
  if (world === undefined || clock === undefined) return undefined;
  const first = Array.from({ length: mesh.sizes.pp }, (_, pp) => mesh.rankOf({ tp: 0, cp: 0, dp: 0, pp }));
  return new RankWatch({
    world,
    hosts,
    clock,
    peers: first.map((rank) => mesh.groupOf(rank, ['tp', 'cp', 'dp'])),
    interval: logging.logInterval,
    peakBytes: () => memoryStatistics(device).peakBytes,
    ...times,
  });
}

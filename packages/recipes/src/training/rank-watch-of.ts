import type { PretrainingConfiguration } from '@mtl/configuration';
import { memoryStatistics } from '@mtl/kernels';
import { RankWatch, type RankWatchOptions } from '@mtl/trainer';
import type { TrainingProcesses } from './training-processes.js';
import { waitedSeconds } from './waited-seconds.js';

/** How often ranks tell what they compute, and are compared. Default: as in every run. */
export type RankWatchTimes = Pick<RankWatchOptions, 'leastIntervalMs' | 'leastReportMs'>;

/**
 * What finds slow ranks; undefined for a process alone. On GPUs the host does not wait for communication, so
 * that its clock does not tell ranks apart: they are not watched.
 */
export function rankWatchOf(
  { logging, parallel }: Pick<PretrainingConfiguration, 'logging' | 'parallel'>,
  {
    processes,
    hosts,
    times,
  }: {
    readonly processes: TrainingProcesses;
    readonly hosts: readonly string[];
    readonly times?: RankWatchTimes | undefined;
  },
): RankWatch | undefined {
  const { groups, mesh } = processes;
  const { world } = groups;
  const { device } = parallel;
  if (world === undefined || device !== 'cpu') return undefined;
  const first = Array.from({ length: mesh.sizes.pp }, (_, pp) => mesh.rankOf({ tp: 0, cp: 0, dp: 0, pp }));
  return new RankWatch({
    world,
    hosts,
    device,
    peers: first.map((rank) => mesh.groupOf(rank, ['tp', 'cp', 'dp'])),
    interval: logging.logInterval,
    waitedSeconds: () => waitedSeconds(groups),
    peakBytes: () => memoryStatistics(device).peakBytes,
    ...times,
  });
}

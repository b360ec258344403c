import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Cores that this process may use: its affinity and the quota of its control group, at least 1. */
export function coresOfProcess(read: (path: string) => string | undefined = readText): number {
  const quota = quotaOf(read);
  return Math.max(1, Math.min(availableParallelism(), Math.floor(quota ?? Number.POSITIVE_INFINITY)));
}

/** Cores' worth of time that the control group may use; undefined for no limit. */
function quotaOf(read: (path: string) => string | undefined): number | undefined {
  const root = '/sys/fs/cgroup';
  const [limit, period] = read(`${root}/cpu.max`)?.split(/\s+/) ?? [
    read(`${root}/cpu/cpu.cfs_quota_us`),
    read(`${root}/cpu/cpu.cfs_period_us`),
  ];
  const cores = Number(limit) / Number(period);
  return cores > 0 && Number.isFinite(cores) ? cores : undefined;
}

export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

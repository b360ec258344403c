import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { ConfigurationError } from '@mtl/errors';

interface MeasureFreeCoresOptions {
  /** The environment variables, usually `process.env`. Only MTL_FREE_CORES is read. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The number of cores that this process may use. */
  readonly cores: number;
  readonly read?: (path: string) => string | undefined;
  readonly windowMs?: number;
  /** Returns the current time in milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/**
 * Measures how many cores are not used by other processes: the idle time in /proc/stat over a short window,
 * plus the CPU time of this process. Returns undefined if the system does not report idle time. The
 * environment variable MTL_FREE_CORES (a number or `all`) replaces the measurement, for example on CI
 * runners, where results must not depend on the load of other processes.
 *
 * @throws ConfigurationError MTL_FREE_CORES
 */
export async function measureFreeCores(options: MeasureFreeCoresOptions): Promise<number | undefined> {
  const { variables, cores, read = readText, windowMs = 300, now = () => performance.now() } = options;
  const given = variables.MTL_FREE_CORES;
  if (given !== undefined && given !== '') return parseFreeCores(given, cores);
  const before = sample(read, now);
  if (before === undefined) return undefined;
  await new Promise((resolve) => setTimeout(resolve, windowMs));
  const after = sample(read, now);
  if (after === undefined) return undefined;
  const seconds = (after.ms - before.ms) / 1000;
  return Math.min(cores, (after.idle - before.idle + after.own - before.own) / seconds);
}

function parseFreeCores(given: string, cores: number): number {
  if (given === 'all') return cores;
  const free = Number(given);
  if (free > 0) return Math.min(cores, free);
  throw new ConfigurationError('MTL_FREE_CORES', `MTL_FREE_CORES=${given}: not a number of cores`, {
    expected: 'a number above 0, or all',
    remedy: 'unset it to have free cores measured, or name the threads with --threads',
  });
}

/** Returns the total idle seconds of this process's cores, and the CPU seconds of the process. */
function sample(read: (path: string) => string | undefined, now: () => number) {
  const lines = read('/proc/stat')?.split('\n') ?? [];
  const allowed = allowedCores(read('/proc/self/status'));
  let idle = 0;
  let known = false;
  for (const line of lines) {
    const [, core, counts] = /^cpu(\d+) (.*)/.exec(line) ?? [];
    if (core === undefined || !(allowed?.has(Number(core)) ?? true)) continue;
    const numbers = counts!.split(' ').map(Number);
    known ||= numbers.some((count) => count > 0);
    // the columns are user nice system idle iowait ..., in hundredths of a second. The time that a virtual
    // machine's host takes (steal) is not idle time
    idle += (numbers[3]! + numbers[4]!) / 100;
  }
  if (!known) return undefined;
  const { user, system } = process.cpuUsage();
  return { idle, own: (user + system) / 1e6, ms: now() };
}

/** Returns the cores in a line such as `Cpus_allowed_list: 0-3,8`; undefined if the line is missing. */
function allowedCores(status: string | undefined): ReadonlySet<number> | undefined {
  const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status ?? '')?.[1];
  if (list === undefined) return undefined;
  return new Set(
    list.split(',').flatMap((range) => {
      const [first, last = first] = range.split('-').map(Number);
      return Array.from({ length: last! - first! + 1 }, (_, index) => first! + index);
    }),
  );
}

/**
 * Returns the number of cores that this process may use, at least 1. CPU affinity and the quota of the
 * control group limit this number.
 */
export function coresOfProcess(read: (path: string) => string | undefined = readText): number {
  const quota = readQuota(read);
  return Math.max(1, Math.min(availableParallelism(), Math.floor(quota ?? Number.POSITIVE_INFINITY)));
}

/** Returns the number of cores that the control group's quota allows; undefined without a limit. */
function readQuota(read: (path: string) => string | undefined): number | undefined {
  const root = '/sys/fs/cgroup';
  const [limit, period] = read(`${root}/cpu.max`)?.split(/\s+/) ?? [
    read(`${root}/cpu/cpu.cfs_quota_us`),
    read(`${root}/cpu/cpu.cfs_period_us`),
  ];
  const cores = Number(limit) / Number(period);
  return cores > 0 && Number.isFinite(cores) ? cores : undefined;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

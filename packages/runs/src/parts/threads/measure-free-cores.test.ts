import { describe, expect, it } from 'vitest';
import { coresOfProcess, measureFreeCores } from './free-cores.js';

/**
 * Returns the content of /proc/stat after `ticks` hundredths of a second in which each core was idle for the
 * fraction in `idle`.
 */
const writeStat = (ticks: number, idle: readonly number[]): string =>
  ['cpu  1 2 3 4 5', ...idle.map((part, core) => `cpu${core} 9 9 9 ${1000 + part * ticks} 7 0 0 0 0 0`)].join(
    '\n',
  );

describe('measureFreeCores', () => {
  /** Measures over a window of ten seconds in which each core is idle for the fraction in `idle`. */
  function measure(idle: readonly number[], allowed: string, cores: number) {
    let ticks = 0;
    const read = (path: string): string | undefined => {
      if (path === '/proc/self/status') return `Name:\tnode\nCpus_allowed_list:\t${allowed}\n`;
      ticks += 1000;
      return writeStat(ticks, idle);
    };
    return measureFreeCores({ variables: {}, cores, read, windowMs: 1, now: () => ticks * 10 });
  }

  it('adds what cores were idle to what this process used', async () => {
    // the test process itself uses little CPU time in these ten seconds
    expect(await measure([1, 0.5, 0, 0], '0-3', 4)).toBeCloseTo(1.5, 1);
  });

  it('counts the cores that the process may run on, and no more than it may use', async () => {
    expect(await measure([1, 1, 1, 1], '0,2', 1)).toBe(1);
    expect(await measure([0, 1, 0, 1], '1,3', 4)).toBeCloseTo(2, 1);
    expect(await measure([0, 1, 0, 1], '0,2', 4)).toBeCloseTo(0, 1);
  });

  it('does not know where the system counts nothing', async () => {
    const nothing = { variables: {}, cores: 2, windowMs: 1 };
    expect(await measureFreeCores({ ...nothing, read: () => undefined })).toBeUndefined();
    expect(await measureFreeCores({ ...nothing, read: () => 'cpu0 0 0 0 0 0 0' })).toBeUndefined();
  });

  it.each([
    ['all', 6],
    ['2.5', 2.5],
    ['64', 6],
  ])('takes MTL_FREE_CORES=%s in place of a measurement', async (value, free) => {
    expect(await measureFreeCores({ variables: { MTL_FREE_CORES: value }, cores: 6 })).toBe(free);
  });

  it.each(['none', '0', '-1'])('refuses MTL_FREE_CORES=%s', async (value) => {
    const measured = measureFreeCores({ variables: { MTL_FREE_CORES: value }, cores: 6 });
    await expect(measured).rejects.toMatchObject({ code: 'MTL_FREE_CORES', exitCode: 2 });
  });

  it('is not measured in tests, whose results must not depend on what else the machine does', () => {
    expect(process.env.MTL_FREE_CORES).toBe('all');
  });
});

describe('coresOfProcess', () => {
  it.each([
    ['version 2 of control groups', { '/sys/fs/cgroup/cpu.max': '150000 100000\n' }],
    [
      'version 1',
      {
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '50000\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
      },
    ],
  ])('keeps to the quota of %s', (_, files: Readonly<Record<string, string>>) => {
    expect(coresOfProcess((path) => files[path])).toBe(1);
  });

  it('has all cores without a quota', () => {
    const all = coresOfProcess(() => undefined);
    expect(coresOfProcess((path) => (path.endsWith('cpu.max') ? 'max 100000\n' : undefined))).toBe(all);
    expect(coresOfProcess((path) => (path.endsWith('quota_us') ? '-1\n' : '100000\n'))).toBe(all);
  });
});

import { isRunning, type LocalRanksOptions, type RankProcess, startLocalRanks } from '@mtl/comm/testing';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { afterEach, describe, expect, it } from 'vitest';
import type { Trouble } from './ranks/trouble.js';
import { complete, errorsOf, ready } from './support/failures.js';

const module = new URL('./ranks/trouble.ts', import.meta.url);
const worldSize = 3;
const culprit = worldSize - 1;
/** For tests that wait for it: longer than starting a step takes on a busy machine, short enough for a test. */
const timeoutMs = 1500;
/** What the watchdog's and the waits' polls (50 ms each) leave for a machine whose cores are all busy. */
const withinMs = 1000;

let ranks: RankProcess[] = [];
let remove = (): void => {};

function start(kind: Trouble['kind'], options: Partial<LocalRanksOptions> = {}): RankProcess[] {
  ({ ranks, remove } = startLocalRanks({
    ...typescriptThreads,
    module,
    worldSize,
    argument: { kind },
    ...options,
  }));
  return ranks;
}

afterEach(async () => {
  for (const rank of ranks) if (isRunning(rank)) rank.child.kill('SIGKILL');
  await Promise.all(ranks.map((rank) => rank.ended));
  remove();
});

describe('a rank that ends', () => {
  it('by kill -9 is an error of all others within a second', async () => {
    const processes = start('none');
    await ready(processes);
    const killed = Date.now();
    processes[culprit]!.child.kill('SIGKILL');
    for (const error of await errorsOf(processes.slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_DIED', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} (process ${processes[culprit]!.child.pid}) has ended`);
      expect(error.at - killed).toBeLessThan(withinMs);
    }
    expect(processes.filter(isRunning)).toEqual([]);
  });

  it('by process.exit is one as well', async () => {
    for (const error of await errorsOf(start('exit').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_DIED', details: { rank: culprit, ...complete } });
    }
  });

  it('with an error of its own is reported with it', async () => {
    for (const error of await errorsOf(start('throw').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_ABORTED', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} failed: Error: a bug in the program`);
    }
  });

  it('in order is an error only of who waits for it', async () => {
    for (const error of await errorsOf(start('leave').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_LEFT', details: { rank: culprit, ...complete } });
    }
  });
});

describe('a rank that does not go on', () => {
  it.each(['hang', 'loop', 'silentSender'] as const)('(%s) is named by all at the time-out', async (kind) => {
    const processes = start(kind, { timeoutMs });
    const errors = await errorsOf(processes.slice(0, culprit));
    for (const error of errors) {
      expect(error.code).toBe('MTL_TIMEOUT');
      expect(error.details).toMatchObject(complete);
      // with messages, rank 1 waits for rank 0, which waits for the culprit: both are late, and one is named first
      if (kind !== 'silentSender') expect(error.details).toMatchObject({ rank: culprit });
    }
    expect(errors[0]!.details.waitedMs).toBeGreaterThan(timeoutMs / 2);
    expect(isRunning(processes[culprit]!)).toBe(true);
  });

  it('because it was stopped is named by all', async () => {
    const processes = start('none', { timeoutMs });
    await ready(processes);
    processes[culprit]!.child.kill('SIGSTOP');
    for (const error of await errorsOf(processes.slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} did not come within ${timeoutMs / 1000} s`);
    }
  });

  it('after the job has failed is ended by its own watchdog', async () => {
    const processes = start('hang', { timeoutMs, abortGraceMs: 300 });
    await errorsOf(processes.slice(0, culprit));
    expect(await processes[culprit]!.ended).toBe(1);
    expect(processes[culprit]!.stderr()).toContain('error[MTL_WATCHDOG]: rank 2 did not end within 0.3 s');
    expect(processes.filter(isRunning)).toEqual([]);
  });
});

describe('a rank that never comes', () => {
  it('is named by all that wait for it', async () => {
    const processes = start('none', { absent: [culprit], joinTimeoutMs: 3000 });
    for (const error of await errorsOf(processes)) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: culprit } });
      expect(error.message).toContain(`rank ${culprit} never came`);
    }
  });

  it('to create a group is named by the others', async () => {
    for (const error of await errorsOf(start('noGroup', { timeoutMs }).slice(1))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: 0, operation: 'createGroup' } });
      expect(error.message).toContain('for rank 0 to create group extra');
    }
  });
});

describe('ranks that do different things', () => {
  it.each([
    ['otherOperation', 'barrier', 'allReduce sum float32 8'],
    ['otherSize', 'allReduce sum float32 7', 'allReduce sum float32 8'],
    ['otherMessage', 'message float32 7', 'message float32 8'],
  ] as const)('(%s) is an error of all, which shows both', async (kind, theirs, ours) => {
    for (const error of await errorsOf(start(kind))) {
      expect(error).toMatchObject({ code: 'MTL_MISMATCH', details: complete });
      expect(error.message).toContain(theirs);
      expect(error.message).toContain(ours);
    }
  });
});

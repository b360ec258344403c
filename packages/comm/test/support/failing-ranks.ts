import { isRunning, type RankProcess } from '@mtl/comm/testing';
import { afterEach, expect } from 'vitest';
import type { Trouble } from '../ranks/trouble.js';
import { expectOnceWithinASecond } from './expect-once-within-a-second.js';
import { type RanksOptions, startRanks } from './ranks.js';

const module = new URL('../ranks/trouble.ts', import.meta.url);

/**
 * The time-out of operations, in milliseconds, in tests that wait until it is over: longer than a step takes
 * to start on a busy machine, and short enough for a test.
 */
export const timeoutMs = 1500;

/** The details of every error of an operation, without the rank. */
export const complete = {
  group: 'world',
  operation: expect.any(String),
  sequence: expect.stringMatching(/^(collective|message) \d+$/),
  waitedMs: expect.any(Number),
};

export type StartFailing = (kind: Trouble['kind'], options?: Partial<RanksOptions>) => RankProcess[];

/** Returns a function that starts ranks including a faulty one; all are stopped after each test. */
export function failingRanks(defaults: () => Partial<RanksOptions>): StartFailing {
  const started: { readonly ranks: RankProcess[]; readonly remove: () => void }[] = [];
  afterEach(async () => {
    for (const { ranks, remove } of started.splice(0)) {
      for (const rank of ranks) if (isRunning(rank)) rank.child.kill('SIGKILL');
      await Promise.all(ranks.map((rank) => rank.ended));
      remove();
    }
  });
  return (kind, options = {}) => {
    const own = startRanks({ module, argument: { kind }, ...defaults(), ...options });
    started.push(own);
    return own.ranks;
  };
}

/**
 * Returns the reports of the survivors, in order of their ranks, after all survivors have ended on their own
 * with status 1.
 */
export async function collectErrors(survivors: readonly RankProcess[]) {
  const ended = await Promise.all(survivors.map((rank) => rank.ended));
  return survivors.map(({ lines, stderr }, index) => {
    const last = lines.at(-1);
    if (last?.error === undefined) throw new Error(`no error, status ${ended[index]}: ${stderr()}`);
    expect(ended[index], stderr()).toBe(1);
    return { ...last.error, at: last.at! };
  });
}

export const ready = (processes: readonly RankProcess[]) =>
  Promise.all(processes.map((rank) => rank.said('ready')));

/** Kills the last rank, `culprit`, and checks that all others name it within a second. */
export async function expectKilledIsNamedAtOnce(start: StartFailing, culprit: number): Promise<void> {
  await expectOnceWithinASecond(async () => {
    const processes = start('none');
    await ready(processes);
    const killed = Date.now();
    processes[culprit]!.child.kill('SIGKILL');
    const errors = await collectErrors(processes.slice(0, culprit));
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'MTL_RANK_DIED', details: { rank: culprit, ...complete } });
      expect(error.message).toMatch(new RegExp(`rank ${culprit} .*has ended`));
    }
    expect(processes.filter(isRunning)).toEqual([]);
    return Math.max(...errors.map(({ at }) => at)) - killed;
  });
}

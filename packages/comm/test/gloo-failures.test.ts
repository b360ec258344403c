import { glooProblem } from '@mtl/comm';
import { isRunning, type RankProcess } from '@mtl/comm/testing';
import { afterEach, describe, expect, it } from 'vitest';
import type { Trouble } from './ranks/trouble.js';
import { complete, errorsOf, ready } from './support/failures.js';
import { type GlooRanksOptions, startGlooRanks } from './support/gloo-ranks.js';

const module = new URL('./ranks/trouble.ts', import.meta.url);
/** Ranks that take themselves for the only one of their host: nothing but Gloo's connections tells them of each other. */
const hosts = [0, 1, 2];
const culprit = 2;
/** For tests that wait for it: longer than starting a step takes on a busy machine, short enough for a test. */
const timeoutMs = 1500;
/** What the polls of the waits (20 ms each) leave for a machine whose cores are all busy. */
const withinMs = 1000;

let ranks: RankProcess[] = [];
let remove = (): void => {};

function start(kind: Trouble['kind'], options: Partial<GlooRanksOptions> = {}): RankProcess[] {
  ({ ranks, remove } = startGlooRanks({ module, hosts, argument: { kind }, ...options }));
  return ranks;
}

afterEach(async () => {
  for (const rank of ranks) if (isRunning(rank)) rank.child.kill('SIGKILL');
  await Promise.all(ranks.map((rank) => rank.ended));
  remove();
});

describe.skipIf(glooProblem() !== undefined)('over gloo (libgloo-dev), a rank', () => {
  it('that is killed is named by all others at once', async () => {
    const processes = start('none');
    await ready(processes);
    const killed = Date.now();
    processes[culprit]!.child.kill('SIGKILL');
    for (const error of await errorsOf(processes.slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_DIED', details: { rank: culprit, ...complete } });
      expect(error.at - killed).toBeLessThan(withinMs);
    }
    expect(processes.filter(isRunning)).toEqual([]);
  });

  it('that fails is reported with its own words', async () => {
    for (const error of await errorsOf(start('throw').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_ABORTED', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} failed: Error: a bug in the program`);
    }
  });

  it('that leaves in order is an error only of who waits for it', async () => {
    for (const error of await errorsOf(start('leave').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_LEFT', details: { rank: culprit, ...complete } });
    }
  });

  it('that is stopped is named by all at the time-out', async () => {
    const processes = start('none', { timeoutMs });
    await ready(processes);
    processes[culprit]!.child.kill('SIGSTOP');
    for (const error of await errorsOf(processes.slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} did not come within ${timeoutMs / 1000} s`);
    }
  });

  it('that does not create a group is named by the others', async () => {
    for (const error of await errorsOf(start('noGroup', { timeoutMs }).slice(1))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: 0, operation: 'createGroup' } });
      expect(error.message).toContain('for rank 0 to create group extra');
    }
  });

  it.each([
    ['otherOperation', 'barrier', 'allReduce sum float32 8'],
    ['otherSize', 'allReduce sum float32 7', 'allReduce sum float32 8'],
    ['otherMessage', 'message float32 7', 'message float32 8'],
  ] as const)(
    'that does something else (%s) is an error of all, which shows both',
    async (kind, theirs, ours) => {
      for (const error of await errorsOf(start(kind))) {
        expect(error).toMatchObject({ code: 'MTL_MISMATCH', details: complete });
        expect(error.message).toContain(theirs);
        expect(error.message).toContain(ours);
      }
    },
  );
});

import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { expect, it } from 'vitest';
import {
  collectErrors,
  complete,
  expectKilledIsNamedAtOnce,
  ready,
  type StartFailing,
  timeoutMs,
} from './failing-ranks.js';

/** Tests the errors of every engine when the last rank, `culprit`, does something wrong. */
export function commonFailures({ start, culprit }: { start: StartFailing; culprit: number }): void {
  it('that is killed is named by all others within a second', () =>
    expectKilledIsNamedAtOnce(start, culprit));

  it('that ends by process.exit is as good as killed', { tags: ['whole'] }, async () => {
    for (const error of await collectErrors(start('exit').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_DIED', details: { rank: culprit, ...complete } });
    }
  });

  it('that fails is reported with its own words', async () => {
    for (const error of await collectErrors(start('throw').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_ABORTED', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} failed: Error: a bug in the program`);
    }
  });

  it('that fails with a coded error is reported with that code', { tags: ['whole'] }, async () => {
    for (const error of await collectErrors(start('throwCoded').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_EXAMPLE', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} failed: a mistake of the user`);
    }
  });

  it('that leaves in order is an error only of who waits for it', async () => {
    for (const error of await collectErrors(start('leave').slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_LEFT', details: { rank: culprit, ...complete } });
    }
  });

  it('that is stopped is named by all at the time-out', async () => {
    const processes = start('none', { timeoutMs });
    await ready(processes);
    processes[culprit]!.child.kill('SIGSTOP');
    for (const error of await collectErrors(processes.slice(0, culprit))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: culprit, ...complete } });
      expect(error.message).toContain(`rank ${culprit} did not come within ${timeoutMs / 1000} s`);
    }
  });

  it('that does not create a group is named by the others', { tags: ['whole'] }, async () => {
    for (const error of await collectErrors(start('noGroup', { timeoutMs }).slice(1))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: 0, operation: 'createGroup' } });
      expect(error.message).toContain('for rank 0 to create group extra');
    }
  });

  it('that sends another number of elements than is expected is an error of all', async () => {
    for (const error of await collectErrors(start('otherParts'))) {
      expect(error).toMatchObject({ code: 'MTL_MISMATCH', details: complete });
      expect(error.message).toContain(`rank ${culprit} sends 3 elements to rank 0, which expects 2`);
    }
  });

  it.each([
    ['otherSize', 'allReduce sum float32 7', 'allReduce sum float32 8'],
    ...inWholeRuns<(readonly ['otherOperation' | 'otherMessage', string, string])[]>(
      ['otherOperation', 'barrier', 'allReduce sum float32 8'],
      ['otherMessage', 'message float32 7', 'message float32 8'],
    ),
  ] as const)(
    'that does something else (%s) is an error of all, which shows both',
    async (kind, theirs, ours) => {
      for (const error of await collectErrors(start(kind))) {
        expect(error).toMatchObject({ code: 'MTL_MISMATCH', details: complete });
        expect(error.message).toContain(theirs);
        expect(error.message).toContain(ours);
      }
    },
  );
}

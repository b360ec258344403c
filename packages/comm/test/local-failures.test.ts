import { isRunning } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { describe, expect, it } from 'vitest';
import { commonFailures } from './support/common-failures.js';
import { collectErrors, complete, failingRanks, timeoutMs } from './support/failing-ranks.js';

const worldSize = 3;
const culprit = worldSize - 1;
const start = failingRanks(() => ({ worldSize }));

describe('over shared memory, a rank', () => {
  commonFailures({ start, culprit });

  it.each(['hang', ...inWholeRuns('loop' as const, 'silentSender' as const)] as const)(
    'that does not go on (%s) is named by all at the time-out',
    async (kind) => {
      const processes = start(kind, { timeoutMs });
      const errors = await collectErrors(processes.slice(0, culprit));
      for (const error of errors) {
        expect(error.code).toBe('MTL_TIMEOUT');
        expect(error.details).toMatchObject(complete);
        // with messages, rank 1 waits for rank 0, which waits for the culprit: both are late, and either may
        // be named first
        if (kind !== 'silentSender') expect(error.details).toMatchObject({ rank: culprit });
      }
      expect(errors[0]!.details.waitedMs).toBeGreaterThan(timeoutMs / 2);
      expect(isRunning(processes[culprit]!)).toBe(true);
    },
  );

  it('that hangs after the job has failed is ended by its own watchdog', { tags: ['whole'] }, async () => {
    const processes = start('hang', { timeoutMs, abortGraceMs: 3000 });
    await collectErrors(processes.slice(0, culprit));
    expect(await processes[culprit]!.ended).toBe(1);
    expect(processes[culprit]!.stderr()).toContain('error[MTL_WATCHDOG]: rank 2 did not end within 3 s');
    expect(processes.filter(isRunning)).toEqual([]);
  });

  it('that never comes is named by all that wait for it', { tags: ['whole'] }, async () => {
    const processes = start('none', { absent: [culprit], joinTimeoutMs: 10_000 });
    for (const error of await collectErrors(processes)) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: culprit } });
      expect(error.message).toContain(`rank ${culprit} never came`);
    }
  });
});

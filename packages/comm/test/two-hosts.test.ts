import { setTimeout as pause } from 'node:timers/promises';
import { glooProblem } from '@mtl/comm';
import { isRunning, runInMemoryRanks } from '@mtl/comm/testing';
import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import { createNetworkHosts, type NetworkHosts, networkHostsProblem } from '@mtl/tooling/network-hosts';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HierarchicalCases } from './ranks/hierarchical-reference.js';
import {
  collectErrors,
  complete,
  expectKilledIsNamedAtOnce,
  failingRanks,
  ready,
  timeoutMs,
} from './support/failing-ranks.js';
import { runRanks } from './support/ranks.js';

const hosts = [0, 0, 1, 1];
/** A rank on the second host. */
const culprit = 3;
const numStops = Number(process.env.MTL_TEST_STOPS ?? numberInRuns({ whole: 2, fast: 1 }));
const cannot = glooProblem() !== undefined || networkHostsProblem() !== undefined;

let network: NetworkHosts;
const start = failingRanks(() => ({ hosts, ...network }));

/** Two emulated hosts with two ranks each, connected by nothing but a virtual cable. */
describe.skipIf(cannot)('two hosts (libgloo-dev, iproute2, root)', () => {
  beforeEach(() => {
    network = createNetworkHosts();
  });

  afterEach(() => network.remove());

  it('give the bits of the documented order of summation', async () => {
    const argument: HierarchicalCases = { hosts, sizes: [1031], dtypes: ['float32', 'bfloat16'] };
    const expected = await runInMemoryRanks({
      ...rankThreads(new URL('./ranks/hierarchical-reference.ts', import.meta.url)),
      worldSize: hosts.length,
      argument,
    });
    const module = new URL('./ranks/collectives.ts', import.meta.url);
    const { results, engines } = await runRanks({ module, hosts, argument, ...network });
    expect(results).toEqual(expected);
    expect(new Set(engines)).toEqual(new Set(['gloo+local']));
  });

  it('lose a rank by kill -9: all others name it at once', () => expectKilledIsNamedAtOnce(start, culprit));

  // stops the rank at different moments of its work; MTL_TEST_STOPS=20 tests more moments
  it.each(Array.from({ length: numStops }, (_, index) => [(culprit + index) % hosts.length, 7 * index]))(
    'lose rank %i, which stops after %i ms: all others name it, and no other rank, at the time-out',
    async (stopped, afterMs) => {
      const processes = start('none', { timeoutMs });
      await ready(processes);
      await pause(afterMs);
      processes[stopped]!.child.kill('SIGSTOP');
      for (const error of await collectErrors(processes.filter((_, rank) => rank !== stopped))) {
        expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: stopped, ...complete } });
        expect(error.message).toContain('group world [0, 1, 2, 3], allReduce');
        // much less than the default of 20 s
        expect(error.details.waitedMs).toBeLessThan(10 * timeoutMs);
      }
      expect(processes.filter(isRunning)).toEqual([processes[stopped]]);
    },
  );

  it('lose the cable: every rank names one of the other host at the time-out', {
    tags: ['whole'],
  }, async () => {
    const processes = start('none', { timeoutMs });
    await ready(processes);
    network.cut();
    const errors = await collectErrors(processes);
    for (const [rank, error] of errors.entries()) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: complete });
      expect(hosts[error.details.rank as number]).not.toBe(hosts[rank]);
    }
    expect(processes.filter(isRunning)).toEqual([]);
  });

  it('disagree: an error of all, which shows both', async () => {
    for (const error of await collectErrors(start('otherSize'))) {
      expect(error).toMatchObject({ code: 'MTL_MISMATCH', details: complete });
      expect(error.message).toContain('allReduce sum float32 7');
      expect(error.message).toContain('allReduce sum float32 8');
    }
  });
});

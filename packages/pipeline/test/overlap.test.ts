import { runLocalRanks } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { RecordedSpan } from '../src/index.js';
import { planMessages } from '../src/simulator/plan-messages.js';
import { makeSchedule } from './ranks/run-affine-chain.js';
import type { TimedCase } from './ranks/time-passes.js';
import type { TracedStep } from './ranks/trace-step.js';

const nanoseconds = 1e6;

/** A case with messages of 640 KB: larger than the slots of a pair of ranks in shared memory. */
const base = { numStages: 4, numReplicas: 1, numMicroBatches: 8, size: 80_000 };

const isPass = ({ kind }: RecordedSpan): boolean => ['F', 'B', 'I', 'W'].includes(kind);

/**
 * Runs a step and checks the order of its operations. Returns the duration of each message, in milliseconds,
 * from the time at which both ranks had posted it.
 * @throws if an operation is out of order
 */
async function timeTransfers(timedCase: TimedCase): Promise<number[]> {
  const ranks = await runLocalRanks<TracedStep>({
    worldSize: base.numStages,
    ...rankThreads(new URL('./ranks/trace-step.ts', import.meta.url)),
    argument: timedCase,
  });
  const transfers: number[] = [];
  ranks.forEach(({ spans, operations }, rank) => {
    const plan = planMessages(makeSchedule(timedCase, base.numMicroBatches), { rank });
    const passes = spans.filter(isPass);
    expect(passes.length).toBe(plan.actions.length);
    const listOperations = (operation: string, peer: number) =>
      operations
        .filter((entry) => entry.operation === operation && entry.peer === peer)
        .sort((a, b) => a.sequence - b.sequence);
    for (let peer = 0; peer < base.numStages; peer++) {
      // messages between two ranks match in order: the k-th receive of the plan is the k-th that was executed
      const receives = listOperations('receive', peer);
      const planned = plan.receives.filter((transfer) => transfer.peer === peer);
      expect(receives.length).toBe(planned.length);
      receives.forEach((receive, index) => {
        const { what, chunk, microBatch } = planned[index]!;
        const user = plan.actions.findIndex(
          ({ input }) => input?.what === what && input.chunk === chunk && input.microBatch === microBatch,
        );
        if (user === 0) return;
        // posted before the pass before its user started, and waited for when that pass was over
        expect(receive.postedNs).toBeLessThan(passes[user - 1]!.startNs);
        expect(receive.waitedFromNs).toBeGreaterThan(passes[user - 1]!.endNs);
      });
      const sends = listOperations('send', peer);
      expect(sends.length).toBe(plan.actions.filter(({ output }) => output?.peer === peer).length);
      for (const send of sends) {
        // waited for only if it was done, or no pass was left to run
        const isWaitedFor = send.waitedFromNs < send.doneNs;
        if (isWaitedFor) expect(send.waitedFromNs).toBeGreaterThan(passes.at(-1)!.endNs);
      }
      const sent = ranks[peer]!.operations.filter(
        (entry) => entry.operation === 'send' && entry.peer === rank,
      ).sort((a, b) => a.sequence - b.sequence);
      receives.forEach((receive, index) => {
        transfers.push((receive.doneNs - Math.max(receive.postedNs, sent[index]!.postedNs)) / nanoseconds);
      });
    }
  });
  return transfers;
}

const computeMedian = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

describe.each(['interleaved', ...inWholeRuns('1f1b', 'zb-v')])('%s over processes', (schedule) => {
  it('communicates while passes run', async () => {
    // The duration of a message must not include the time of passes that run meanwhile. On a busy machine the
    // threads that transfer bytes have to wait, but passes take longer too, so this wait becomes a smaller
    // share of their time. A wait for a whole pass would keep its share.
    const shares: number[] = [];
    for (let passMs = 20; passMs <= 160 && (shares.at(-1) ?? 1) >= 1 / 2; passMs *= 2)
      shares.push(computeMedian(await timeTransfers({ ...base, schedule, passMs })) / passMs);
    expect(shares.at(-1), `${shares}`).toBeLessThan(1 / 2);
  });
});

import { runInMemoryRanks } from '@mtl/comm/testing';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import { type ChainCase, lossFactor, type RankResult, scheduleOf } from './ranks/run-affine-chain.js';
import { affineBatches, affineChain } from './support/affine-chain.js';

const inMemory = (cases: readonly ChainCase[], worldSize: number): Promise<RankResult[][]> =>
  runInMemoryRanks<RankResult[]>({
    ...typescriptThreads,
    worldSize,
    module: new URL('./ranks/run-affine-chain.ts', import.meta.url),
    argument: cases,
  });

/** Every rank's part of every case is what the formulas give, to the last bit. */
function expectExact(cases: readonly ChainCase[], ranks: readonly (readonly RankResult[])[]): void {
  cases.forEach((chainCase, index) => {
    const { numMicroBatches, numReplicas, size } = chainCase;
    const { placement } = scheduleOf(chainCase, numMicroBatches);
    const numChunks = placement.length;
    const expected = affineChain(affineBatches(numMicroBatches, size), { numChunks, lossFactor });
    ranks.forEach((results, worldRank) => {
      const stage = Math.floor(worldRank / numReplicas);
      const chunks = placement.flatMap((home, chunk) => (home === stage ? [chunk] : []));
      const hasLoss = placement.at(-1) === stage;
      const context = { ...chainCase, worldRank };
      expect({ ...context, ...results[index]! }).toEqual({
        ...context,
        chunks: chunks.map((chunk) => ({ chunk, ...expected.gradients[chunk]! })),
        losses: hasLoss ? expected.losses : [],
        evaluated: hasLoss ? expected.losses : [],
        lastRank: placement.at(-1),
        // announced when all but the last micro-batch are done, once for each chunk
        announced: expect.toSatisfy((announced: RankResult['announced']) => {
          const seen = announced.map(({ chunk }) => chunk).sort((a, b) => a - b);
          return (
            `${seen}` === `${chunks}` && announced.every(({ numDone }) => numDone === numMicroBatches - 1)
          );
        }),
        numLeft: 0,
      });
    });
  });
}

/** All schedules with so many stages: a few sizes of each. */
function casesOf(numStages: number, numReplicas: number): ChainCase[] {
  const p = numStages;
  const base = { numStages, numReplicas, size: 6 };
  if (p === 1) return [1, 3].map((numMicroBatches) => ({ ...base, schedule: 'one stage', numMicroBatches }));
  const one = ['gpipe', '1f1b', 'zb-h1', 'zb-h2', 'zb-v', 'breadth-first'].flatMap((schedule) =>
    [1, p, 2 * p + 1].map((numMicroBatches) => ({ ...base, schedule, numMicroBatches })),
  );
  const chunked = ['interleaved', 'breadth-first'].flatMap((schedule) =>
    [2, 3, 4].flatMap((numChunks) =>
      [p, 2 * p].map((numMicroBatches) => ({ ...base, schedule, numMicroBatches, numChunks })),
    ),
  );
  return [...one, ...chunked];
}

describe.each([1, 2, 3, 4])('a chain over %d stages', (numStages) => {
  it.each([1, 2])('times %d replicas has the losses and gradients of its formulas', async (numReplicas) => {
    const cases = casesOf(numStages, numReplicas);
    expectExact(cases, await inMemory(cases, numStages * numReplicas));
  });
});

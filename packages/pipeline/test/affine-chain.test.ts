import { runInMemoryRanks, runLocalRanks } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { assertSchedule } from '../src/schedules.js';
import {
  type ChainCase,
  countRanks,
  lossFactor,
  makeSchedule,
  type RankResult,
} from './ranks/run-affine-chain.js';
import { affineBatches, affineChain } from './support/affine-chain.js';
import { randomSchedule } from './support/random-schedule.js';

const makeRanks = (cases: readonly ChainCase[]) => ({
  worldSize: Math.max(...cases.map(countRanks)),
  ...rankThreads(new URL('./ranks/run-affine-chain.ts', import.meta.url)),
  argument: cases,
});

/** Checks that the results of every rank in every case equal the formulas, to the last bit. */
function expectExact(cases: readonly ChainCase[], ranks: readonly (readonly RankResult[])[]): void {
  cases.forEach((chainCase, index) => {
    const { numMicroBatches, numReplicas, size } = chainCase;
    const { placement } = makeSchedule(chainCase, numMicroBatches);
    const numChunks = placement.length;
    const expected = affineChain(affineBatches(numMicroBatches, size), { numChunks, lossFactor });
    ranks.forEach((results, worldRank) => {
      const stage = Math.floor(worldRank / numReplicas);
      const chunks = placement.flatMap((home, chunk) => (home === stage ? [chunk] : []));
      const hasLoss = placement.at(-1) === stage;
      const context = { ...chainCase, worldRank };
      const { announced, ...result } = results[index]!;
      expect({ ...context, ...result }).toMatchObject({
        ...context,
        chunks: chunks.map((chunk) => ({ chunk, ...expected.gradients[chunk]! })),
        losses: hasLoss ? expected.losses : [],
        evaluated: hasLoss ? expected.losses : [],
        lastRank: placement.at(-1),
        numLeft: 0,
      });
      // called once for each chunk, when all its micro-batches except one are done
      const inOrder = announced.toSorted((a, b) => a.chunk - b.chunk);
      expect({ ...context, inOrder }).toEqual({
        ...context,
        inOrder: chunks.map((chunk) => ({ chunk, numDone: numMicroBatches - 1 })),
      });
    });
  });
}

/** Returns cases of all schedules with `numStages` stages, with a few sizes of each. */
function listCases(numStages: number, numReplicas: number): ChainCase[] {
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

/** Returns cases of random schedules, generated from the seed of the run. */
function casesByChance(numStages: number, numReplicas: number): ChainCase[] {
  if (numStages === 1) return [];
  const schedules = fc.sample(randomSchedule(numStages), 25);
  for (const schedule of schedules) assertSchedule(schedule);
  return schedules.map((schedule) => ({
    schedule,
    numStages,
    numReplicas,
    size: 2,
    numMicroBatches: schedule.numMicroBatches,
  }));
}

describe('a chain of known gradients', () => {
  const layouts: readonly (readonly [numStages: number, numReplicas: number])[] = [
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 1],
    ...inWholeRuns<readonly (readonly [number, number])[]>([1, 2], [2, 1], [3, 1], [4, 2]),
  ];
  const cases = layouts.flatMap((layout) => [...listCases(...layout), ...casesByChance(...layout)]);
  let ranks: (RankResult | undefined)[][];
  // ranks are started once for all layouts and schedules, since the start takes longer than the cases
  beforeAll(async () => {
    ranks = await runInMemoryRanks<(RankResult | undefined)[]>(makeRanks(cases));
  });

  it.each(layouts)(
    'is exact in every schedule, and in some by chance, over %d stages times %d replicas',
    (numStages, numReplicas) => {
      const isHere = (each: ChainCase) => each.numStages === numStages && each.numReplicas === numReplicas;
      const results = ranks
        .slice(0, numStages * numReplicas)
        .map((own) => own.flatMap((result, index) => (isHere(cases[index]!) ? [result!] : [])));
      expectExact(cases.filter(isHere), results);
    },
  );

  it.each([
    [2, 2],
    [4, 1],
  ])(
    'is exact over processes: %d stages times %d replicas',
    { tags: ['whole'] },
    async (numStages, numReplicas) => {
      // larger than the slots of a pair of ranks in shared memory: sends are still in progress when their
      // pass is over
      const large = { numStages, numReplicas, numMicroBatches: 4, size: 140_000 };
      const schedules = ['1f1b', 'zb-v'];
      const csv = numStages === 2 ? ['0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n'] : [];
      const cases = [
        ...listCases(numStages, numReplicas),
        ...schedules.map((schedule) => ({ ...large, schedule })),
        ...csv.map((schedule) => ({ ...large, schedule, size: 6, numMicroBatches: 2 })),
      ];
      expectExact(cases, await runLocalRanks<RankResult[]>(makeRanks(cases)));
    },
  );
});

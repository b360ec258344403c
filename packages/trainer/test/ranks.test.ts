import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { expect, it } from 'vitest';
import { Ranks } from '../src/steps/ranks.js';
import type { NumbersOfRanks } from './ranks/numbers-of-ranks.js';

it('sums numbers of all ranks, finds the largest of each, and gathers them by rank', async () => {
  const ranks = await runInMemoryRanks<NumbersOfRanks>({
    worldSize: 3,
    ...rankThreads(new URL('./ranks/numbers-of-ranks.ts', import.meta.url)),
  });
  const expected = { sums: [3, 1.5], largest: [2, 5], all: [0, 10, 20] };
  expect(ranks).toEqual([expected, expected, expected]);
});

it('is a process alone without groups', () => {
  const ranks = new Ranks({ groups: {} });
  expect(ranks).toMatchObject({
    rank: 0,
    size: 1,
    shareOfBatch: { index: 0, count: 1 },
    isFirstOfSequence: true,
  });
  expect([ranks.sum([4]), ranks.maximum([4]), ranks.ofEveryRank(4)]).toEqual([[4], [4], [4]]);
});

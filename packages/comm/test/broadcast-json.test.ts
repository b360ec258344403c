import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { expect, it } from 'vitest';

it('gives every rank the value of the root, with numbers that JSON has no words for', async () => {
  const ranks = rankThreads(new URL('./ranks/broadcast-values.ts', import.meta.url));
  const results = await runInMemoryRanks<unknown[]>({ ...ranks, worldSize: 3 });
  const broadcastBy = (rank: number) => ({
    rank,
    text: 'größe',
    numbers: [1.5, Number.NaN, Number.POSITIVE_INFINITY],
  });
  expect(results).toEqual(Array.from({ length: 3 }, () => [broadcastBy(0), broadcastBy(2), undefined]));
});

import { expect, it } from 'vitest';
import { isCopySpreadOverShares, ProcessMesh, shareAmongGroups, shareOfBatch } from './index.js';

it('gives ranks that differ along the batch different shares, and all others the same', () => {
  const mesh = new ProcessMesh({ tp: 2, cp: 2, dp: 3, pp: 2 });
  const shares = Array.from({ length: mesh.worldSize }, (_, rank) => shareOfBatch(mesh, rank));
  expect(new Set(shares.map(({ count }) => count))).toEqual(new Set([3]));
  expect(shares.map(({ index }) => index)).toEqual(shares.map((_, rank) => Math.floor(rank / 4) % 3));
});

it('gives a process alone all of it', () => {
  expect(shareAmongGroups({})).toEqual({ index: 0, count: 1 });
  expect(shareAmongGroups({ tp: { rank: 1, size: 2 } })).toEqual({ index: 0, count: 1 });
  expect(shareAmongGroups({ dp: { rank: 1, size: 2 } })).toEqual({ index: 1, count: 2 });
});

it.each([
  [{ tp: 2, dp: 2 }, false],
  [{ dp: 4, ep: 2 }, true],
  // experts over ranks that share a sequence
  [{ tp: 2, dp: 2, etp: 1, ep: 2 }, false],
  [{ tp: 2, dp: 2, etp: 1, ep: 4 }, true],
  [{ cp: 2, dp: 2, ep: 2 }, false],
])('tells whether a copy of the model is on ranks of several shares: %o', (sizes, isSpread) => {
  expect(isCopySpreadOverShares(new ProcessMesh(sizes))).toBe(isSpread);
});

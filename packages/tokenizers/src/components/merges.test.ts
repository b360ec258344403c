import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Merges } from './merges.js';

describe('Merges', () => {
  it('finds the ranks that a map of pairs has, also where pairs share places', () => {
    // only a few different ids, so that pairs repeat, and entries in the hash table collide
    const id = fc.integer({ min: 0, max: 12 });
    fc.assert(
      fc.property(fc.array(fc.tuple(id, id), { maxLength: 60 }), (pairs) => {
        const merges = new Merges(pairs.length);
        const expected = new Map<string, number>();
        for (const [rank, [left, right]] of pairs.entries()) {
          merges.add(left, right, { rank, made: 100 + rank });
          expected.set(`${left} ${right}`, rank);
        }
        for (let left = 0; left <= 12; left++) {
          for (let right = 0; right <= 12; right++) {
            const rank = merges.findRank(left, right);
            expect(rank).toBe(expected.get(`${left} ${right}`) ?? -1);
            if (rank >= 0) expect(merges.made[rank]).toBe(100 + rank);
          }
        }
      }),
    );
  });

  it('keeps large ids apart', () => {
    const merges = new Merges(2);
    merges.add(2 ** 24 - 1, 0, { rank: 0, made: 1 });
    merges.add(0, 2 ** 24 - 1, { rank: 1, made: 2 });
    expect([merges.findRank(2 ** 24 - 1, 0), merges.findRank(0, 2 ** 24 - 1), merges.findRank(0, 0)]).toEqual(
      [0, 1, -1],
    );
  });
});

import { describe, expect, it } from 'vitest';
import type { GroupsResult } from './ranks/groups.js';
import { runRanks } from './support/ranks.js';

describe('local groups', () => {
  it('overlap, keep their order and progress without a wait', async () => {
    const { results } = await runRanks<GroupsResult>({
      worldSize: 4,
      module: new URL('./ranks/groups.ts', import.meta.url),
      bufferBytes: 8192,
    });
    results.forEach((result, rank) => {
      expect(result.row).toEqual([rank < 2 ? 1 : 5]);
      expect(result.column).toEqual([rank % 2 === 0 ? 20 : 40]);
      expect(result.sums).toEqual([4, 8, 12, 16, 20, 24]);
      expect(result.relayed).toEqual([0, 1, 2].map((index) => 100 * ((rank + 3) % 4) + index));
      expect(result.disposed).toEqual([6]);
      expect(result.withoutValues).toEqual(
        ['meta', 'meta-cuda'].map((device) => [
          'MTL_DEVICE',
          `engine local of group world moves values, a tensor on device ${device} has none`,
        ]),
      );
      expect(result.startedBeforeWait).toBe(1);
      expect(result.isDone).toEqual([true, true]);
      // 8 all-reduces of 40000 float32 with 4 ranks: each rank sends 2 (4 - 1) / 4 of its bytes, give or take
      // slices that are rounded to cache lines
      const expected = 8 * 40_000 * 4 * 1.5;
      expect(result.allReduce.calls).toBe(8);
      expect(Math.abs(result.allReduce.sentBytes / expected - 1)).toBeLessThan(0.02);
      expect(result.allReduce.waitedSeconds).toBeGreaterThan(0);
    });
  });
});

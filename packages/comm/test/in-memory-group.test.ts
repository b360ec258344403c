import { runInMemoryRanks } from '@mtl/comm/testing';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';

describe('runInMemoryRanks', () => {
  it('sums over ranks', async () => {
    const results = await runInMemoryRanks<number[]>({
      ...typescriptThreads,
      worldSize: 3,
      module: new URL('./ranks/all-reduce.ts', import.meta.url),
      argument: 'float32',
    });
    expect(results).toEqual(Array.from({ length: 3 }, () => [3, 6, 9]));
  });
});

import { expect, it } from 'vitest';
import type { AwaitWorkResult } from './ranks/await-work.js';
import { runRanks } from './support/ranks.js';

it('an operation can be awaited while timers run', async () => {
  const { results } = await runRanks<AwaitWorkResult>({
    worldSize: 2,
    module: new URL('./ranks/await-work.ts', import.meta.url),
  });
  for (const { sum, ticks } of results) {
    expect(sum).toEqual([3]);
    // of some 200 turns, one for every millisecond
    expect(ticks).toBeGreaterThan(5);
  }
});

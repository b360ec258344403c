import { runInMemoryRanks } from '@mtl/comm/testing';
import { numLiveTensors } from '@mtl/kernels';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { NetworkComparison } from './ranks/compare-network.js';

describe.each([2, 4])('embedding, column- and row-parallel matmuls and cross entropy on %i ranks', (size) => {
  const layouts = [
    [false, false],
    [true, false],
  ];
  // four ranks test nothing about adapters that two ranks do not test
  const adapted = layouts.map(([sequenceParallel]) => [sequenceParallel!, true]);
  it.each(size === 2 ? [...layouts, ...adapted] : layouts)(
    'are the whole ones, sequence parallelism %s, adapters %s',
    async (sequenceParallel, isAdapted) => {
      const before = numLiveTensors();
      const ranks = await runInMemoryRanks<NetworkComparison>({
        worldSize: size,
        ...rankThreads(new URL('./ranks/compare-network.ts', import.meta.url)),
        argument: { sequenceParallel, isAdapted },
      });
      expect(numLiveTensors()).toBe(before);
      for (const { isSameEmbedding, narrowed, losses, gradients } of ranks) {
        // only one rank has the row of a token and the others have zeros, so sums are exact
        expect(isSameEmbedding).toBe(true);
        // float32 sums of 192 numbers around 10, in another order
        expect(narrowed).toBeLessThan(1e-4);
        expect(losses).toBeLessThan(1e-4);
        for (const [name, share] of Object.entries(gradients)) expect(share, name).toBeLessThan(1e-5);
        const adapted = Object.keys(gradients).filter((name) => name.includes('lora'));
        expect([adapted.length, 'up' in gradients]).toEqual(isAdapted ? [6, false] : [0, true]);
      }
    },
  );
});

describe('tokens and labels out of the range of the whole vocabulary', () => {
  const refusals = [
    // rows 37 to 39 of the table are padding, on the last rank
    [{ token: 37 }, /^MTL_INDEX: .*: ids\[0\] is 37, expected 0 to 36$/],
    [{ token: -1 }, /^MTL_INDEX: .*: ids\[0\] is -1, expected 0 to 36$/],
    [{ label: 38 }, /^MTL_INDEX: .*: labels\[7\] is 38, expected 0 to 36$/],
    [{ label: -100 }, /^MTL_INDEX: .*: labels\[7\] is -100, expected 0 to 36$/],
  ] as const;

  it('are refused on every rank, and an ignored label has no loss on any', async () => {
    const ranks = await runInMemoryRanks<readonly string[]>({
      worldSize: 2,
      ...rankThreads(new URL('./ranks/refuse-indices.ts', import.meta.url)),
      argument: [...refusals.map(([wrong]) => wrong), { label: -100, ignoreIndex: -100 }],
    });
    for (const results of ranks) {
      refusals.forEach(([, expected], index) => void expect(results[index]).toMatch(expected));
      expect(results.at(-1)).toBe('a loss of 0');
    }
  });
});

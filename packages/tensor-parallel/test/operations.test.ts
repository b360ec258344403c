import { runInMemoryRanks } from '@mtl/comm/testing';
import { numLiveTensors } from '@mtl/kernels';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { NetworkComparison } from './ranks/compare-network.js';

describe.each([2, 4])(
  'embedding, column- and row-parallel products and cross entropy on %i ranks',
  (size) => {
    it.each([false, true])('are the whole ones, sequence parallelism %s', async (sequenceParallel) => {
      const before = numLiveTensors();
      const ranks = await runInMemoryRanks<NetworkComparison>({
        ...typescriptThreads,
        worldSize: size,
        module: new URL('./ranks/compare-network.ts', import.meta.url),
        argument: sequenceParallel,
      });
      expect(numLiveTensors()).toBe(before);
      for (const { isSameEmbedding, narrowed, losses, gradients } of ranks) {
        // one rank has a token's row and the others zeros
        expect(isSameEmbedding).toBe(true);
        // float32 sums of 192 numbers around 10, in another order
        expect(narrowed).toBeLessThan(1e-4);
        expect(losses).toBeLessThan(1e-4);
        for (const [name, share] of Object.entries(gradients)) expect(share, name).toBeLessThan(1e-5);
      }
    });
  },
);

import { runInMemoryRanks } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { CollectiveCases } from './ranks/collectives.js';
import { runRanks } from './support/ranks.js';

const module = new URL('./ranks/collectives.ts', import.meta.url);
/** A chunk holds 1024 float32, so 5003 elements take five steps, and their parts and slices do not divide. */
const bufferBytes = 4096;
const argument: CollectiveCases = { sizes: [0, 1, 1031, 5003] };

describe('local collectives', () => {
  it.each([1, 3, ...inWholeRuns(2, 8)])(
    'give the bits of the in-memory group with %i ranks',
    async (worldSize) => {
      const expected = await runInMemoryRanks<Record<string, string>>({
        ...typescriptThreads,
        worldSize,
        module,
        argument,
        timeoutMs: 60_000,
      });
      const { results } = await runRanks<Record<string, string>>({
        worldSize,
        module,
        argument,
        bufferBytes,
      });
      expect(results).toEqual(expected);
      expect(Object.keys(results[0]!)).toHaveLength(7 * 4 * 11);
    },
  );

  it('do so in buffers and messages of the usual size', async () => {
    const large = { worldSize: 2, module, argument: { sizes: [300_001], dtypes: ['float32'] } };
    const expected = await runInMemoryRanks<Record<string, string>>({ ...typescriptThreads, ...large });
    expect((await runRanks(large)).results).toEqual(expected);
  });
});

import { glooProblem } from '@mtl/comm';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { CollectiveCases } from './ranks/collectives.js';
import type { HierarchicalCases } from './ranks/hierarchical-reference.js';
import { runRanks } from './support/ranks.js';

const module = new URL('./ranks/collectives.ts', import.meta.url);
const reference = new URL('./ranks/hierarchical-reference.ts', import.meta.url);
const argument: CollectiveCases = { sizes: [0, 1, 1031, 5003] };
/** Several chunks of half a MiB for each member, the last of them short. */
const large: CollectiveCases = {
  sizes: [400_009],
  dtypes: ['float32'],
  operations: ['allReduceSum', 'reduceScatter'],
};
type Hashes = Record<string, string>;

/** Ranks of one host that say they are on as many hosts as there are numbers. */
describe.skipIf(glooProblem() !== undefined)('gloo collectives (libgloo-dev)', () => {
  it.each([3, ...inWholeRuns(2, 4)])(
    'give the bits of the in-memory group with %i ranks',
    async (worldSize) => {
      const hosts = Array.from({ length: worldSize }, (_, rank) => rank);
      const inMemory = { ...typescriptThreads, worldSize, module, argument, timeoutMs: 60_000 };
      const expected = await runInMemoryRanks<Hashes>(inMemory);
      const { results, engines } = await runRanks<Hashes>({ module, hosts, argument });
      expect(results).toEqual(expected);
      expect(new Set(engines)).toEqual(new Set(['gloo']));
      expect(Object.keys(results[0]!)).toHaveLength(7 * 4 * 11);
    },
  );

  it.each([2, ...inWholeRuns(3)])('do so in chunks with %i ranks', async (worldSize) => {
    const hosts = Array.from({ length: worldSize }, (_, rank) => rank);
    const inMemory = { ...typescriptThreads, worldSize, module, argument: large };
    const expected = await runInMemoryRanks<Hashes>(inMemory);
    expect((await runRanks<Hashes>({ module, hosts, argument: large })).results).toEqual(expected);
  });

  it.each([
    ['hosts of unequal size', [0, 0, 1]],
    ...inWholeRuns<[string, number[]][]>(
      ['two hosts of two', [0, 0, 1, 1]],
      ['interleaved ranks', [0, 1, 1, 0]],
    ),
  ])('over shared memory inside each host: %s', async (_, hosts) => {
    // an empty tensor, one with fewer elements than members, and one that does not divide by them
    const argument: HierarchicalCases = { hosts, sizes: [0, 1, 1031] };
    const expected = await runInMemoryRanks<Hashes>({
      ...typescriptThreads,
      worldSize: hosts.length,
      module: reference,
      argument,
      timeoutMs: 60_000,
    });
    const { results, engines } = await runRanks<Hashes>({ module, hosts, argument });
    expect(results).toEqual(expected);
    expect(new Set(engines)).toEqual(new Set(['gloo+local']));
  });
});

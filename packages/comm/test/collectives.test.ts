import { glooProblem } from '@mtl/comm';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { CollectiveCases } from './ranks/collectives.js';
import type { HierarchicalCases } from './ranks/hierarchical-reference.js';
import { runRanks } from './support/ranks.js';

const module = new URL('./ranks/collectives.ts', import.meta.url);
const inMemory = rankThreads(module);
/**
 * Sizes in elements. A chunk of `bufferBytes` holds 1024 float32, so 5003 elements take five steps, with
 * parts and slices of unequal lengths.
 */
const argument: CollectiveCases = { sizes: [0, 1, 1031, 5003] };
const bufferBytes = 4096;
const numCases = 7 * 4 * 11;
/** Sizes that take several chunks of half a MiB for each member; the last chunk is short. */
const large: CollectiveCases = {
  sizes: [400_009],
  dtypes: ['float32'],
  operations: ['allReduceSum', 'reduceScatter'],
};
type Hashes = Record<string, string>;

const ofGroups = new Map<number, Promise<Hashes[]>>();

/** Returns the hashes of results that an in-memory group computes; they are computed once for all engines. */
function inMemoryHashes(worldSize: number): Promise<Hashes[]> {
  const known =
    ofGroups.get(worldSize) ??
    runInMemoryRanks<Hashes>({ ...inMemory, worldSize, argument, timeoutMs: 60_000 });
  ofGroups.set(worldSize, known);
  return known;
}

/** Returns the host of each rank, for a world in which every rank is alone on its host. */
const listHosts = (worldSize: number): number[] => Array.from({ length: worldSize }, (_, rank) => rank);

describe('local collectives', () => {
  it.each([1, 3, ...inWholeRuns(2, 8)])(
    'give the bits of the in-memory group with %i ranks',
    async (worldSize) => {
      const { results } = await runRanks<Hashes>({ worldSize, module, argument, bufferBytes });
      expect(results).toEqual(await inMemoryHashes(worldSize));
      expect(Object.keys(results[0]!)).toHaveLength(numCases);
    },
  );

  it('do so in buffers and messages of the usual size', async () => {
    const usual = { worldSize: 2, argument: { sizes: [300_001], dtypes: ['float32'] } };
    const expected = await runInMemoryRanks<Hashes>({ ...inMemory, ...usual });
    expect((await runRanks({ module, ...usual })).results).toEqual(expected);
  });
});

describe.skipIf(glooProblem() !== undefined)('gloo collectives (libgloo-dev)', () => {
  it.each([3, ...inWholeRuns(2, 4)])(
    'give the bits of the in-memory group with %i ranks',
    async (worldSize) => {
      const { results, engines } = await runRanks<Hashes>({ module, hosts: listHosts(worldSize), argument });
      expect(results).toEqual(await inMemoryHashes(worldSize));
      expect(new Set(engines)).toEqual(new Set(['gloo']));
      expect(Object.keys(results[0]!)).toHaveLength(numCases);
    },
  );

  it.each([2, ...inWholeRuns(3)])('do so in chunks with %i ranks', async (worldSize) => {
    const expected = await runInMemoryRanks<Hashes>({ ...inMemory, worldSize, argument: large });
    const { results } = await runRanks<Hashes>({ module, hosts: listHosts(worldSize), argument: large });
    expect(results).toEqual(expected);
  });

  it.each([
    ['hosts of unequal size', [0, 0, 1]],
    ...inWholeRuns<[string, number[]][]>(
      ['two hosts of two', [0, 0, 1, 1]],
      ['interleaved ranks', [0, 1, 1, 0]],
    ),
  ])('over shared memory inside each host: %s', async (_, hosts) => {
    // an empty tensor, one with fewer elements than members, and one whose size the number of members does
    // not divide
    const argument: HierarchicalCases = { hosts, sizes: [0, 1, 1031] };
    const expected = await runInMemoryRanks<Hashes>({
      ...rankThreads(new URL('./ranks/hierarchical-reference.ts', import.meta.url)),
      worldSize: hosts.length,
      argument,
      timeoutMs: 60_000,
    });
    const { results, engines } = await runRanks<Hashes>({ module, hosts, argument });
    expect(results).toEqual(expected);
    expect(new Set(engines)).toEqual(new Set(['gloo+local']));
  });
});

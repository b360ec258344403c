import { ProcessMesh } from '@mtl/layout';
import { describe, expect, it } from 'vitest';
import type { ProcessGroup } from '../process-group.js';
import { SingleProcessGroup } from '../single-process-group.js';
import type { GroupOptions, World } from '../world.js';
import { createMeshGroups } from './create-mesh-groups.js';

/** Makes a world that records the requested groups. */
function notingWorld(rank: number, size: number): { world: World; created: GroupOptions[] } {
  const created: GroupOptions[] = [];
  const world: World = {
    rank,
    size,
    group: new SingleProcessGroup('world'),
    abort: () => {},
    close: () => {},
    [Symbol.dispose]: () => {},
    createGroup: (options) => {
      created.push(options);
      return Object.assign(new SingleProcessGroup(options.name, rank), {
        ranks: options.ranks,
      }) as ProcessGroup;
    },
  };
  return { world, created };
}

const everything = {
  tp: ['tp'],
  cp: ['cp'],
  dp: ['dp'],
  pp: ['pp'],
  dpCp: ['dp', 'cp'],
  tpCp: ['tp', 'cp'],
  model: ['tp', 'pp'],
  ep: ['ep'],
  edp: ['edp'],
  embedding: { axes: ['pp'], stages: [0, 1] },
} as const;

describe('createMeshGroups', () => {
  it('gives the groups that are declared, along axes and combinations', () => {
    const { world } = notingWorld(5, 12); // tp 2, dp 2, pp 3: rank 5 is (1, 0, 1)
    const groups = createMeshGroups(world, new ProcessMesh({ tp: 2, dp: 2, pp: 3 }), {
      tp: ['tp'],
      dp: ['dp'],
      pp: ['pp'],
      model: ['tp', 'pp'],
      cp: ['cp'],
    });
    expect(groups.tp.ranks).toEqual([4, 5]);
    expect(groups.dp.ranks).toEqual([5, 7]);
    expect(groups.pp.ranks).toEqual([1, 5, 9]);
    expect(groups.model.ranks).toEqual([0, 1, 4, 5, 8, 9]);
    expect(groups.cp.ranks).toEqual([5]);
  });

  it('creates nothing that is not declared, and one group for the same members', () => {
    const { world, created } = notingWorld(3, 8);
    const groups = createMeshGroups(world, new ProcessMesh({ tp: 2, dp: 4, etp: 1, ep: 8 }), {
      dp: ['dp'],
      dpCp: ['dp', 'cp'],
      tpDp: ['tp', 'dp'],
      ep: ['ep'],
    });
    expect(groups.dpCp).toBe(groups.dp);
    expect(groups.ep).toBe(groups.tpDp);
    expect(created.map(({ name, ranks }) => [name, ranks.length])).toEqual([
      ['dp', 4],
      ['tpDp', 8],
    ]);
  });

  it('has the stages that are named, on these stages only', () => {
    const mesh = new ProcessMesh({ tp: 2, pp: 3 });
    const listEmbeddingRanks = (rank: number, stages: readonly number[]) => {
      const embedding = { axes: ['pp'], stages } as const;
      return createMeshGroups(notingWorld(rank, 6).world, mesh, { embedding }).embedding?.ranks;
    };
    expect([0, 2, 4].map((rank) => listEmbeddingRanks(rank, [2, 1]))).toEqual([undefined, [2, 4], [2, 4]]);
    expect([1, 3, 5].map((rank) => listEmbeddingRanks(rank, [0, 0]))).toEqual([[1], undefined, undefined]);
  });

  it.each([
    { tp: 2, cp: 1, dp: 2, pp: 2 },
    { tp: 2, cp: 2, dp: 2, pp: 1 },
    { tp: 1, cp: 2, dp: 1, pp: 4 },
    { tp: 8, cp: 1, dp: 1, pp: 1 },
    { tp: 2, cp: 1, dp: 2, pp: 2, etp: 1, ep: 2 },
  ])('creates what members share in the same order on all ranks: %o', (sizes) => {
    const mesh = new ProcessMesh(sizes);
    const perRank = Array.from({ length: 8 }, (_, rank) => {
      const { world, created } = notingWorld(rank, 8);
      createMeshGroups(world, mesh, everything);
      return created.map(({ name, ranks }) => `${name} ${ranks.join(' ')}`);
    });
    for (const [rank, own] of perRank.entries()) {
      for (const [other, theirs] of perRank.entries()) {
        const shared = (list: string[]): string[] =>
          list.filter((text) => {
            const ranks = text.split(' ').slice(1).map(Number);
            return ranks.includes(rank) && ranks.includes(other);
          });
        expect(shared(own)).toEqual(shared(theirs));
      }
    }
  });

  it('refuses a mesh of another size', () => {
    expect(() => createMeshGroups(notingWorld(0, 4).world, new ProcessMesh({ tp: 3 }), {})).toThrow(
      expect.objectContaining({ code: 'MTL_MESH', remedy: expect.stringContaining('3 processes') }),
    );
  });
});

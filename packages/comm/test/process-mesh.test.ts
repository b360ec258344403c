import { type MeshAxis, meshAxes, ProcessMesh } from '@mtl/comm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const size = fc.integer({ min: 1, max: 4 });
const meshes = fc.record({ tp: size, cp: size, dp: size, pp: size }).map((sizes) => new ProcessMesh(sizes));
const axisSets = fc.uniqueArray(fc.constantFrom<MeshAxis>(...meshAxes));
const ranksOf = (mesh: ProcessMesh): number[] => Array.from({ length: mesh.worldSize }, (_, rank) => rank);

describe('ProcessMesh', () => {
  it('maps ranks to coordinates and back, tp fastest and pp slowest', () => {
    fc.assert(
      fc.property(meshes, (mesh) => {
        const { tp, cp, dp } = mesh.sizes;
        for (const rank of ranksOf(mesh)) {
          const at = mesh.coordinatesOf(rank);
          expect(at.tp + tp * (at.cp + cp * (at.dp + dp * at.pp))).toBe(rank);
          expect(mesh.rankOf(at)).toBe(rank);
        }
      }),
    );
  });

  it('divides all ranks into groups of equal size along any axes', () => {
    fc.assert(
      fc.property(meshes, axisSets, (mesh, axes) => {
        const groups = mesh.groupsAlong(axes);
        expect(groups.flat().toSorted((a, b) => a - b)).toEqual(ranksOf(mesh));
        const members = axes.reduce((product, axis) => product * mesh.sizes[axis], 1);
        for (const group of groups) {
          expect(group).toHaveLength(members);
          expect(group).toEqual(group.toSorted((a, b) => a - b));
          for (const rank of group) expect(mesh.groupOf(rank, axes)).toEqual(group);
        }
        expect(groups.map(([first]) => first!)).toEqual(
          groups.map(([first]) => first!).toSorted((a, b) => a - b),
        );
      }),
    );
  });

  it('meets the groups along the other axes in one rank', () => {
    fc.assert(
      fc.property(meshes, axisSets, fc.nat(), (mesh, axes, seed) => {
        const rank = seed % mesh.worldSize;
        const others = meshAxes.filter((axis) => !axes.includes(axis));
        const shared = mesh.groupOf(rank, axes).filter((each) => mesh.groupOf(rank, others).includes(each));
        expect(shared).toEqual([rank]);
      }),
    );
  });

  it('refuses what is no size, rank or coordinate', () => {
    for (const tp of [0, -1, 1.5, Number.NaN]) {
      expect(() => new ProcessMesh({ tp })).toThrow(expect.objectContaining({ code: 'MTL_MESH' }));
    }
    expect(() => new ProcessMesh({ tp: 2, dq: 2 } as object)).toThrow(/no axis dq/);
    const mesh = new ProcessMesh({ tp: 2, pp: 3 });
    expect(() => mesh.groupOf(0, ['tensor' as MeshAxis])).toThrow(/no axis tensor/);
    for (const rank of [-1, 6, 0.5]) expect(() => mesh.coordinatesOf(rank)).toThrow(/no rank/);
    expect(() => mesh.rankOf({ tp: 2, cp: 0, dp: 0, pp: 0 })).toThrow(/no coordinate 2 on axis tp of 2/);
  });
});

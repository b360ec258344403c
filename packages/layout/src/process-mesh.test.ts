import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type MeshAxis, meshViews } from './mesh-axes.js';
import { findStage, isFirstOfStage, ProcessMesh } from './process-mesh.js';

const size = fc.integer({ min: 1, max: 4 });
/** Meshes whose expert axes have any two factors of the stage size as their sizes. */
const meshes = fc
  .record({ tp: size, cp: size, dp: size, pp: size, first: fc.nat(), second: fc.nat() })
  .map(({ first, second, ...sizes }) => {
    const stageSize = sizes.tp * sizes.cp * sizes.dp;
    const etp = chooseDivisor(stageSize, first);
    return new ProcessMesh({ ...sizes, etp, ep: chooseDivisor(stageSize / etp, second) });
  });
const views: readonly (readonly MeshAxis[])[] = Object.values(meshViews);
const axisSets = fc.constantFrom(...views).chain((view) => {
  const axes = fc.uniqueArray(fc.constantFrom(...view));
  return axes.map((some) => ({ axes: some, others: view.filter((axis) => !some.includes(axis)) }));
});
function chooseDivisor(number: number, seed: number): number {
  const divisors = Array.from({ length: number }, (_, index) => index + 1).filter(
    (each) => number % each === 0,
  );
  return divisors[seed % divisors.length]!;
}
const listRanks = (mesh: ProcessMesh): number[] => Array.from({ length: mesh.worldSize }, (_, rank) => rank);

describe('ProcessMesh', () => {
  it('maps ranks to coordinates and back, tp fastest and pp slowest', () => {
    fc.assert(
      fc.property(meshes, (mesh) => {
        const { tp, cp, dp, etp, ep, edp } = mesh.sizes;
        for (const rank of listRanks(mesh)) {
          const at = mesh.coordinatesOf(rank);
          expect(at.tp + tp * (at.cp + cp * (at.dp + dp * at.pp))).toBe(rank);
          expect(at.etp + etp * (at.ep + ep * (at.edp + edp * at.pp))).toBe(rank);
          expect(mesh.rankOf(at)).toBe(rank);
        }
      }),
    );
  });

  it('divides all ranks into groups of equal size along any axes', () => {
    fc.assert(
      fc.property(meshes, axisSets, (mesh, { axes }) => {
        const groups = mesh.groupsAlong(axes);
        expect(groups.flat().toSorted((a, b) => a - b)).toEqual(listRanks(mesh));
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
      fc.property(meshes, axisSets, fc.nat(), (mesh, { axes, others }, seed) => {
        const rank = seed % mesh.worldSize;
        const shared = mesh.groupOf(rank, axes).filter((each) => mesh.groupOf(rank, others).includes(each));
        expect(shared).toEqual([rank]);
      }),
    );
  });

  it("spreads experts over the ranks of a stage, etp fastest (with Megatron-LM's groups)", () => {
    const mesh = new ProcessMesh({ tp: 2, dp: 4, etp: 1, ep: 4 });
    expect(mesh.sizes).toEqual({ tp: 2, cp: 1, dp: 4, pp: 1, etp: 1, ep: 4, edp: 2 });
    expect(mesh.groupsAlong(['ep'])).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(mesh.groupsAlong(['edp'])).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
    // by default, experts are sharded like dense weights, and each replica has all experts
    expect(new ProcessMesh({ tp: 2, cp: 2, dp: 3 }).sizes).toMatchObject({ etp: 2, ep: 1, edp: 6 });
  });

  it('refuses experts that do not fit the ranks of a stage, and axes of two views', () => {
    for (const sizes of [{ ep: 3 }, { etp: 8 }, { etp: 2, ep: 2, edp: 2 }]) {
      expect(() => new ProcessMesh({ tp: 2, dp: 2, ...sizes })).toThrow(
        expect.objectContaining({ code: 'MTL_MESH', remedy: 'choose etp and ep whose product divides 4' }),
      );
    }
    expect(() => new ProcessMesh({ tp: 2, dp: 2 }).groupOf(0, ['tp', 'ep'])).toThrow(
      /no view of a mesh has all of the axes tp, ep/,
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

  it('knows the ranks of a stage, and over how many processes the parameters of a view are divided', () => {
    const mesh = new ProcessMesh({ tp: 2, cp: 2, dp: 3, pp: 2, etp: 1, ep: 4 });
    expect(mesh.rankOf({ tp: 1, pp: 1 })).toBe(13);
    expect(mesh.ranksOfStage(1)).toEqual(Array.from({ length: 12 }, (_, at) => 12 + at));
    expect([mesh.numShards('dense'), mesh.numShards('expert')]).toEqual([4, 8]);
  });
});

it('knows the ranks of a stage that hold one copy of a view, and the first rank of each stage', () => {
  const mesh = new ProcessMesh({ tp: 2, dp: 2, pp: 2, etp: 1, ep: 2 });
  expect(mesh.ranksOfCopy(6, 'dense')).toEqual([6, 7]);
  expect(mesh.ranksOfCopy(5, 'expert')).toEqual([4, 5]);
  const ranks = Array.from({ length: mesh.worldSize }, (_, rank) => mesh.coordinatesOf(rank));
  expect(ranks.map(findStage)).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
  expect(ranks.map(isFirstOfStage)).toEqual([true, false, false, false, true, false, false, false]);
});

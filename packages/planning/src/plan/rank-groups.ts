import { membersOf } from '@mtl/comm';
import { type AxisSizes, groupsOfRun, meshOfRun } from '@mtl/configuration';
import type { RankGroup } from '@mtl/planner';

/** A group by its name: one of the strategies', or which ranks else. */
export type GroupNamed = (name: string) => RankGroup;

/**
 * The groups of a run by their names, and how many of their ranks are on one node: what the strategies
 * declare (`groupsOfRun`), and all ranks for any other name.
 */
export function rankGroups(parallel: AxisSizes, gpusPerNode: number): GroupNamed {
  const mesh = meshOfRun(parallel);
  const declared = groupsOfRun(mesh, { parallel });
  const groupNamed = (name: string): RankGroup => {
    const { declaration, plannedAs } = declared[name] ?? { plannedAs: 'pipeline' };
    const ranks = declaration && membersOf(declaration, { mesh, rank: 0 });
    const [first = 0, second = 1] = ranks ?? [];
    const [size, distance] = [ranks?.length ?? mesh.worldSize, second - first];
    const isInside = distance * (size - 1) < gpusPerNode;
    const perNode = isInside ? size : Math.max(1, Math.floor(gpusPerNode / distance));
    return { axis: plannedAs, size, perNode: Math.min(size, perNode) };
  };
  // every collective of a recorded step asks
  const known = new Map<string, RankGroup>();
  return (name) => {
    const group = known.get(name) ?? groupNamed(name);
    known.set(name, group);
    return group;
  };
}

/**
 * The name of the communicator of a group: the first that is declared with the same members, which share one
 * in a run, though a dry run tells them apart.
 */
export function communicatorNames(parallel: AxisSizes): (name: string) => string {
  const mesh = meshOfRun(parallel);
  const declared = Object.entries(groupsOfRun(mesh, { parallel }));
  const membersOfGroup = (name: string): string | undefined => {
    const [, group] = declared.find(([each]) => each === name) ?? [];
    return group && membersOf(group.declaration, { mesh, rank: 0 }).join(' ');
  };
  return (name) => {
    const members = membersOfGroup(name);
    return declared.find(([each]) => membersOfGroup(each) === members)?.[0] ?? name;
  };
}

/** Whether neighbouring stages of a pipeline are on one node. */
export function isPipelineInside(parallel: AxisSizes, gpusPerNode: number): boolean {
  return meshOfRun(parallel).worldSize <= gpusPerNode;
}

import type { Parameter } from '@mtl/autograd';
import type { MeshAxis, ProcessGroup } from '@mtl/comm';
import { copiesAlong, type ParallelGroups } from '@mtl/optimizer';

/**
 * 0 on the one rank that saves what several hold. Ranks of a store's group that all hold everything take
 * turns, so that each saves about as many bytes.
 */
export function replicaNumbers(
  parameters: readonly Parameter[],
  {
    groups,
    group = { rank: 0, size: 1 },
    isDivided,
  }: {
    readonly groups: ParallelGroups;
    /** Of the store that keeps the parameters. */
    readonly group: Pick<ProcessGroup, 'rank' | 'size'> | undefined;
    /** Whether each of its ranks holds a part of its own. */
    readonly isDivided: boolean;
  },
): ReadonlyMap<Parameter, number> {
  const { rank, size } = group;
  const assigned = new Array<number>(size).fill(0);
  return new Map(
    parameters.map((parameter) => {
      const turn = assigned.indexOf(Math.min(...assigned));
      assigned[turn]! += parameter.size;
      let replica = isDivided ? 0 : (rank - turn + size) % size;
      let scale = isDivided ? 1 : size;
      for (const axis of parameter.copiedOver) {
        const copies = copiesAlong(groups, axis);
        replica += (copies?.rank ?? 0) * scale;
        scale *= copies?.size ?? 1;
      }
      return [parameter, replica];
    }),
  );
}

/** 0 on the one rank that saves what all ranks have that hold slices or copies of a parameter. */
export function replicaOfWhole(
  { copiedOver, placement }: Parameter,
  { groups, group }: { readonly groups: ParallelGroups; readonly group: ProcessGroup | undefined },
): number {
  const axes = [...copiedOver, ...(Object.keys(placement.sharded) as MeshAxis[])];
  const others = axes.map((axis) => copiesAlong(groups, axis));
  return [group, ...others].reduce(
    ({ replica, scale }, each) => ({
      replica: replica + (each?.rank ?? 0) * scale,
      scale: scale * (each?.size ?? 1),
    }),
    { replica: 0, scale: 1 },
  ).replica;
}

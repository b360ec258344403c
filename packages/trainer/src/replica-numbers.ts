import type { Parameter } from '@mtl/autograd';
import { copiesAlong, type DataParallelSharing, type ParallelGroups } from '@mtl/optimizer';

/**
 * 0 on the one rank that saves what several hold. Data-parallel ranks that all hold everything take turns, so
 * that each saves about as many bytes.
 */
export function replicaNumbers(
  parameters: readonly Parameter[],
  { groups, sharing }: { readonly groups: ParallelGroups; readonly sharing: DataParallelSharing },
): ReadonlyMap<Parameter, number> {
  const { rank, size, distributed } = sharing;
  const assigned = new Array<number>(size).fill(0);
  return new Map(
    parameters.map((parameter) => {
      const turn = assigned.indexOf(Math.min(...assigned));
      assigned[turn]! += parameter.size;
      let replica = distributed ? 0 : (rank - turn + size) % size;
      let scale = distributed ? 1 : size;
      for (const axis of parameter.copiedOver) {
        const copies = copiesAlong(groups, axis);
        replica += (copies?.rank ?? 0) * scale;
        scale *= copies?.size ?? 1;
      }
      return [parameter, replica];
    }),
  );
}

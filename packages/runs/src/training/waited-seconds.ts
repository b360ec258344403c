import type { ProcessGroup } from '@mtl/comm';
import type { ParallelGroups } from '@mtl/optimizer';

/** Seconds for which this process has waited in the communication of its groups. */
export function waitedSeconds(groups: ParallelGroups): number {
  const distinct = new Set(
    Object.values(groups).filter((group): group is ProcessGroup => group !== undefined),
  );
  const operations = [...distinct].flatMap((group) => Object.values(group.statistics()));
  return operations.reduce((sum, { waitedSeconds }) => sum + waitedSeconds, 0);
}

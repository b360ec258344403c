import type { ProcessGroup } from '@mtl/comm';
import { copyAxes, type MeshAxis, type MeshView } from '@mtl/layout';

/**
 * For each view, the role of the group across instances, for example `dpInstances`. An instance is a block of
 * processes that sum a view's gradients. Stores divide their states within an instance, so every instance has
 * all states. The group contains the processes with the same shares, one from each instance.
 */
export const instanceRoles = Object.fromEntries(
  Object.entries(copyAxes).map(([view, axis]) => [view, `${axis}Instances`]),
) as { readonly [View in MeshView]: `${(typeof copyAxes)[View]}Instances` };

type InstanceRole = (typeof instanceRoles)[MeshView];

/**
 * The groups of this process by role. For an axis of the mesh, the group along this axis; undefined if the
 * axis has one rank. For a view, the group over which stores sum gradients and divide states: `dense` (by
 * default, the group along dp) and `expert` (by default, the group along edp). If these groups are instances,
 * gradients are also summed over the groups in `instanceRoles`. By default, there is a single instance.
 */
export interface ParallelGroups
  extends Readonly<Partial<Record<MeshAxis | MeshView | InstanceRole, ProcessGroup | undefined>>> {
  /** All processes of the mesh. */
  readonly world?: ProcessGroup | undefined;
  /**
   * The group of the first and the last pipeline stage, which both have a copy of a tied word embedding.
   * Undefined on all other stages.
   */
  readonly embedding?: ProcessGroup | undefined;
}

/**
 * All groups of this process by role. They include the groups that strategies declare for special parameters.
 */
export type GroupsByRole = ParallelGroups & Readonly<Record<string, ProcessGroup | undefined>>;

/**
 * Returns the processes along an axis that have copies of a parameter or partial sums of its gradient. Along
 * pp, these are only the first and the last stage, because the stages between them have different layers.
 */
export function copiesAlong(groups: ParallelGroups, axis: MeshAxis): ProcessGroup | undefined {
  return axis === 'pp' ? groups.embedding : groups[axis];
}

/**
 * Returns the processes over which a store sums a view's gradients and divides its states. These are either
 * all processes that sum the gradients or one instance. Undefined for a single process.
 */
export function reductionGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  return groups[view] ?? groups[copyAxes[view]];
}

/**
 * Returns the processes with the same shares of a view's states, one from each instance. Undefined for a
 * single instance.
 */
export function instancesGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  const group = groups[instanceRoles[view]];
  return group !== undefined && group.size > 1 ? group : undefined;
}

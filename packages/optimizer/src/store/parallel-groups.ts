import type { ProcessGroup } from '@mtl/comm';
import { copyAxes, type MeshAxis, type MeshView } from '@mtl/layout';

/**
 * For each view, the role of the group across instances, such as `dpInstances`. An instance is a block of the
 * processes that sum gradients of the view: stores divide their states within an instance, and every instance
 * has all states. The group has the processes with the same shares, one of each instance.
 */
export const instanceRoles = Object.fromEntries(
  Object.entries(copyAxes).map(([view, axis]) => [view, `${axis}Instances`]),
) as { readonly [View in MeshView]: `${(typeof copyAxes)[View]}Instances` };

type InstanceRole = (typeof instanceRoles)[MeshView];

/**
 * The groups of this process by their roles. Each axis of the mesh has the group along the axis; without a
 * group, the axis has one rank. Each view has the group over which stores sum gradients, and divide states:
 * `dense` (default: along dp) and `expert` (default: along edp). If these groups are instances, gradients are
 * also summed over the groups of `instanceRoles` (default: a single instance).
 */
export interface ParallelGroups
  extends Readonly<Partial<Record<MeshAxis | MeshView | InstanceRole, ProcessGroup | undefined>>> {
  /** All processes of the mesh. */
  readonly world?: ProcessGroup | undefined;
  /**
   * The group of the first and the last pipeline stage. Each stage has a copy of a tied word embedding. Only
   * processes of these stages have the group.
   */
  readonly embedding?: ProcessGroup | undefined;
}

/**
 * All groups of this process by their roles, including the groups that strategies declare for special
 * parameters.
 */
export type GroupsByRole = ParallelGroups & Readonly<Record<string, ProcessGroup | undefined>>;

/**
 * Returns the processes along an axis that have copies of a parameter, or partial sums of its gradient. Along
 * pp, these are only the first and the last stage, because the stages between have other layers.
 */
export function copiesAlong(groups: ParallelGroups, axis: MeshAxis): ProcessGroup | undefined {
  return axis === 'pp' ? groups.embedding : groups[axis];
}

/**
 * Returns the processes over which a store sums the gradients of a view's parameters, and divides its states:
 * all processes that sum them, or one instance. Undefined for a single process.
 */
export function reductionGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  return groups[view] ?? groups[copyAxes[view]];
}

/**
 * Returns the processes that have the same shares of a view's states, one of each instance; undefined for a
 * single instance.
 */
export function instancesGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  const group = groups[instanceRoles[view]];
  return group !== undefined && group.size > 1 ? group : undefined;
}

import type { ProcessGroup } from '@mtl/comm';
import { copyAxes, type MeshAxis, type MeshView } from '@mtl/layout';

/**
 * The groups of this process by their roles. For each axis of the mesh: the group along the axis; without it,
 * the axis has one rank. For each view: the group over which gradients are summed, `dense` (default: along
 * dp) and `expert` (default: along edp).
 */
export interface ParallelGroups
  extends Readonly<Partial<Record<MeshAxis | MeshView, ProcessGroup | undefined>>> {
  /** All processes of the mesh. */
  readonly world?: ProcessGroup | undefined;
  /**
   * The first and the last pipeline stage, which each hold a copy of a tied word embedding. Only processes of
   * these stages have the group.
   */
  readonly embedding?: ProcessGroup | undefined;
}

/**
 * All groups of this process by their roles, including the groups that strategies declare for their own parts
 * of a model.
 */
export type GroupsByRole = ParallelGroups & Readonly<Record<string, ProcessGroup | undefined>>;

/**
 * Returns the processes along an axis that hold copies of a parameter, or partial sums of its gradient. Along
 * pp these are only the first and the last stage, since the stages between hold other layers.
 */
export function copiesAlong(groups: ParallelGroups, axis: MeshAxis): ProcessGroup | undefined {
  return axis === 'pp' ? groups.embedding : groups[axis];
}

/**
 * Returns the processes over which gradients of a view's parameters are summed; undefined for a single
 * process.
 */
export function reductionGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  return groups[view] ?? groups[copyAxes[view]];
}

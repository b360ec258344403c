import type { ProcessGroup } from '@mtl/comm';
import { copyAxes, type MeshAxis, type MeshView } from '@mtl/layout';

/**
 * The groups of this process by their roles. Each axis of the mesh has the group along the axis; without a
 * group, the axis has one rank. Each view has the group over which gradients are summed: `dense` (default:
 * along dp) and `expert` (default: along edp).
 */
export interface ParallelGroups
  extends Readonly<Partial<Record<MeshAxis | MeshView, ProcessGroup | undefined>>> {
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
 * Returns the processes over which gradients of a view's parameters are summed; undefined for a single
 * process.
 */
export function reductionGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  return groups[view] ?? groups[copyAxes[view]];
}

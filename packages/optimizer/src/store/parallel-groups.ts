import type { ProcessGroup } from '@mtl/comm';
import { copyAxes, type MeshAxis, type MeshView } from '@mtl/layout';

/**
 * The groups of this process by their roles: along the axes of the mesh, where one without a group has one
 * rank, and by view those over which gradients are summed: `dense` (default: along dp) and `expert` (along
 * edp).
 */
export interface ParallelGroups
  extends Readonly<Partial<Record<MeshAxis | MeshView, ProcessGroup | undefined>>> {
  /** All processes of the mesh. */
  readonly world?: ProcessGroup | undefined;
  /**
   * The first and the last pipeline stage, which hold a copy each of a tied word embedding; on these stages
   * only.
   */
  readonly embedding?: ProcessGroup | undefined;
}

/**
 * All groups of this process by their roles: those that strategies declare for their own parts of a model,
 * too.
 */
export type GroupsByRole = ParallelGroups & Readonly<Record<string, ProcessGroup | undefined>>;

/**
 * The processes that hold copies of a parameter which is replicated over an axis, or partial: all along the
 * axis, but along pp only the ends, since stages between hold other layers.
 */
export function copiesAlong(groups: ParallelGroups, axis: MeshAxis): ProcessGroup | undefined {
  return axis === 'pp' ? groups.embedding : groups[axis];
}

/** The processes over which gradients of a view's parameters are summed; undefined for one alone. */
export function reductionGroup(groups: ParallelGroups, view: MeshView): ProcessGroup | undefined {
  return groups[view] ?? groups[copyAxes[view]];
}

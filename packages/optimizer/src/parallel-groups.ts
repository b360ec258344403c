import type { MeshAxis, ProcessGroup } from '@mtl/comm';

/** The groups of this process along the axes of the mesh; an axis without a group has one rank. */
export type ParallelGroups = Partial<Readonly<Record<MeshAxis, ProcessGroup>>> & {
  /** All processes of the mesh. */
  readonly world?: ProcessGroup;
  /**
   * The first and the last pipeline stage, which hold a copy each of a tied word embedding; on these stages
   * only.
   */
  readonly embedding?: ProcessGroup | undefined;
};

/**
 * The processes that hold copies of a parameter which is replicated over an axis, or partial: all along the
 * axis, but along pp only the ends, since stages between hold other layers.
 */
export function copiesAlong(groups: ParallelGroups, axis: MeshAxis): ProcessGroup | undefined {
  return axis === 'pp' ? groups.embedding : groups[axis];
}

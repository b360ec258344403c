import type { MeshAxis, ProcessGroup } from '@mtl/comm';

/** The groups of this process along the axes of the mesh; an axis without a group has one rank. */
export type ParallelGroups = Partial<Readonly<Record<MeshAxis, ProcessGroup>>> & {
  /** All processes of the mesh. */
  readonly world?: ProcessGroup;
};

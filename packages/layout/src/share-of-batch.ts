import { batchAxis, type DenseAxis, type MeshView, meshViews } from './mesh-axes.js';
import type { ProcessMesh } from './process-mesh.js';

/** The share of every batch that a process computes: share `index` of `count` equal shares. */
export interface ShareOfBatch {
  readonly index: number;
  readonly count: number;
}

/** The share of a process that runs alone: the whole batch. */
export const wholeBatch: ShareOfBatch = Object.freeze({ index: 0, count: 1 });

/** Returns the share of a rank of a mesh. */
export function shareOfBatch(mesh: ProcessMesh, rank: number): ShareOfBatch {
  return { index: mesh.coordinatesOf(rank)[batchAxis], count: mesh.sizes[batchAxis] };
}

/**
 * Returns the share of a process, given its groups along axes. If an axis has no group, the process is the
 * only one along it.
 */
export function shareAmongGroups(
  groups: Readonly<Partial<Record<DenseAxis, { readonly rank: number; readonly size: number } | undefined>>>,
): ShareOfBatch {
  const group = groups[batchAxis];
  return group === undefined ? wholeBatch : { index: group.rank, count: group.size };
}

/**
 * Returns true if the processes that together hold one copy of a stage's parameters take different samples.
 * If so, a share of a batch cannot be computed without the processes that have other shares.
 */
export function isCopySpreadOverShares(mesh: ProcessMesh): boolean {
  const { index } = shareOfBatch(mesh, 0);
  return (Object.keys(meshViews) as MeshView[]).some((view) =>
    mesh.ranksOfCopy(0, view).some((rank) => shareOfBatch(mesh, rank).index !== index),
  );
}

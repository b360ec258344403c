import { batchAxis, type DenseAxis, type MeshView, meshViews } from './mesh-axes.js';
import type { ProcessMesh } from './process-mesh.js';

/**
 * The share of every batch that one process computes. Each batch is divided into `count` equal shares;
 * `index` counts them from 0.
 */
export interface ShareOfBatch {
  readonly index: number;
  readonly count: number;
}

/** The share of a single process without a mesh: the whole batch. */
export const wholeBatch: ShareOfBatch = Object.freeze({ index: 0, count: 1 });

/** Returns the share that belongs to `rank` in `mesh`. */
export function shareOfBatch(mesh: ProcessMesh, rank: number): ShareOfBatch {
  return { index: mesh.coordinatesOf(rank)[batchAxis], count: mesh.sizes[batchAxis] };
}

/**
 * Returns the share of a process from its groups along the axes. If there is no group for an axis, the
 * process is the only one along this axis.
 */
export function shareAmongGroups(
  groups: Readonly<Partial<Record<DenseAxis, { readonly rank: number; readonly size: number } | undefined>>>,
): ShareOfBatch {
  const group = groups[batchAxis];
  return group === undefined ? wholeBatch : { index: group.rank, count: group.size };
}

/**
 * Returns true if a complete copy of a stage's parameters is spread over processes that take different
 * samples. A process can then compute its share of a batch only together with the processes that compute the
 * other shares.
 */
export function isCopySpreadOverShares(mesh: ProcessMesh): boolean {
  const { index } = shareOfBatch(mesh, 0);
  return (Object.keys(meshViews) as MeshView[]).some((view) =>
    mesh.ranksOfCopy(0, view).some((rank) => shareOfBatch(mesh, rank).index !== index),
  );
}

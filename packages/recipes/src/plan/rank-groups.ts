import type { RankGroup } from '@mtl/planner';
import type { MeshSizes } from '../layout/mesh-of-run.js';

/** A group by its name: an axis of the mesh, or which ranks else. */
export type GroupNamed = (name: string) => RankGroup;

/**
 * The groups of a run by their names, and how many of their ranks are on one node. Ranks of a tensor-parallel
 * group are neighbours, then those of a data-parallel group, then the stages of a pipeline.
 */
export function rankGroups(parallel: MeshSizes, gpusPerNode: number): GroupNamed {
  const { tensorModelParallelSize: t, pipelineModelParallelSize: p, dataParallelSize: d } = parallel;
  const group = (
    axis: RankGroup['axis'],
    { size, distance }: { readonly size: number; readonly distance: number },
  ): RankGroup => {
    const isInside = distance * (size - 1) < gpusPerNode;
    const perNode = isInside ? size : Math.max(1, Math.floor(gpusPerNode / distance));
    return { axis, size, perNode: Math.min(size, perNode) };
  };
  const groups: Readonly<Record<string, RankGroup>> = {
    tp: group('tensor', { size: t, distance: 1 }),
    dp: group('data', { size: d, distance: t }),
    pp: group('pipeline', { size: p, distance: t * d }),
    embedding: group('pipeline', { size: 2, distance: t * d * (p - 1) }),
    world: group('pipeline', { size: t * d * p, distance: 1 }),
  };
  return (name) => groups[name] ?? groups.world!;
}

/** Whether neighbouring stages of a pipeline are on one node. */
export function isPipelineInside(parallel: MeshSizes, gpusPerNode: number): boolean {
  const { tensorModelParallelSize, pipelineModelParallelSize, dataParallelSize } = parallel;
  return tensorModelParallelSize * pipelineModelParallelSize * dataParallelSize <= gpusPerNode;
}

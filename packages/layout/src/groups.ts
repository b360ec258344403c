import type { MeshAxis } from './mesh-axes.js';
import type { ProcessMesh } from './process-mesh.js';

/**
 * Ranks that communicate: ranks that differ along axes of one view of the mesh. `stages` limits the group to
 * some pipeline stages. With `blockSize` the group is one block of this number of neighbours; with `across`
 * it has one rank of each block, at the same position. The name under which a group is declared is its role:
 * two groups may have the same ranks and different roles.
 */
export type GroupDeclaration =
  | readonly MeshAxis[]
  | { readonly axes: readonly MeshAxis[]; readonly stages: readonly number[] }
  | { readonly axes: readonly MeshAxis[]; readonly blockSize: number; readonly across?: boolean };

/** Returns the axes along which the ranks of a group differ. */
export const axesOfGroup = (declaration: GroupDeclaration): readonly MeshAxis[] =>
  'axes' in declaration ? declaration.axes : declaration;

/**
 * Returns the global ranks of the declared group that `rank` belongs to, or would belong to if it were in the
 * group's stages.
 */
export function listMembers(
  declaration: GroupDeclaration,
  { mesh, rank }: { readonly mesh: ProcessMesh; readonly rank: number },
): readonly number[] {
  const all = mesh.groupOf(rank, axesOfGroup(declaration));
  if (!('axes' in declaration)) return all;
  if ('stages' in declaration) {
    return all.filter((other) => declaration.stages.includes(mesh.coordinatesOf(other).pp));
  }
  const { blockSize, across = false } = declaration;
  const findPlace = (index: number): number => (across ? index % blockSize : Math.floor(index / blockSize));
  const own = findPlace(all.indexOf(rank));
  return all.filter((_, index) => findPlace(index) === own);
}

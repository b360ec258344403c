import type { MeshAxis } from './mesh-axes.js';
import type { ProcessMesh } from './process-mesh.js';

/**
 * Declares a group of ranks that communicate. These ranks differ only along the given axes, which belong to
 * one view of the mesh. `stages` limits the group to the given pipeline stages. `blockSize` divides the ranks
 * into blocks of neighbours. Without `across`, the group is one block. With `across`, it consists of the
 * ranks at the same position in every block. A group is declared under a name, its role. Groups with
 * different roles may have the same ranks.
 */
export type GroupDeclaration =
  | readonly MeshAxis[]
  | { readonly axes: readonly MeshAxis[]; readonly stages: readonly number[] }
  | { readonly axes: readonly MeshAxis[]; readonly blockSize: number; readonly across?: boolean };

/** Returns the axes along which the ranks of a group differ. */
export const axesOfGroup = (declaration: GroupDeclaration): readonly MeshAxis[] =>
  'axes' in declaration ? declaration.axes : declaration;

/**
 * Returns the global ranks of the declared group that contains `rank`. For a rank outside of `stages`,
 * returns the ranks in `stages` that differ from `rank` only along the declared axes.
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

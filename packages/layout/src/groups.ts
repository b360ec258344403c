import type { MeshAxis } from './mesh-axes.js';
import type { ProcessMesh } from './process-mesh.js';

/**
 * The declaration of a group of ranks that communicate. The ranks of a group differ only along certain axes
 * of one view of the mesh. `stages` limits the group to some pipeline stages. `blockSize` divides the ranks
 * into blocks of neighbours. The group is then one block, or, with `across`, it consists of the ranks that
 * have the same position in their blocks. The name under which a group is declared is its role; groups with
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
 * Returns the global ranks of the declared group to which `rank` belongs. If the rank is outside of the
 * group's stages, returns the group at the rank's other coordinates.
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

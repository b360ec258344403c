import { ConfigurationError } from '@mtl/errors';
import { denseAxes, type GroupDeclaration, listMembers, type MeshAxis, type ProcessMesh } from '@mtl/layout';
import type { ProcessGroup } from '../process-group.js';
import type { World } from '../world.js';

/**
 * The declared groups of a rank, by name. A group of pipeline stages is undefined on ranks that do not belong
 * to it. A group exists even if it has a single rank; its operations then do nothing.
 */
export type MeshGroups<Declared extends Readonly<Record<string, GroupDeclaration>>> = {
  readonly [Name in keyof Declared]: Declared[Name] extends readonly MeshAxis[]
    ? ProcessGroup
    : ProcessGroup | undefined;
} & { close(): void };

/**
 * Creates the declared groups to which this rank belongs, in the order of the declarations, which must be the
 * same on all ranks. If several groups have the same members, they are one object with one communicator, and
 * this object has the first group's name.
 *
 * @throws ConfigurationError `MTL_MESH` if the mesh and the world have different sizes
 */
export function createMeshGroups<const Declared extends Readonly<Record<string, GroupDeclaration>>>(
  world: World,
  mesh: ProcessMesh,
  declared: Declared,
): MeshGroups<Declared> {
  if (mesh.worldSize !== world.size) {
    const sizes = denseAxes.map((axis) => mesh.sizes[axis]).join(' x ');
    throw new ConfigurationError(
      'MTL_MESH',
      `a mesh of ${sizes} (${denseAxes.join(', ')}) for ${world.size} processes`,
      {
        expected: `${mesh.worldSize} processes`,
        remedy: `start ${mesh.worldSize} processes, or choose sizes whose product is ${world.size}`,
      },
    );
  }
  const created = new Map<string, ProcessGroup>();
  const entries = Object.entries(declared).map(([name, declaration]) => {
    const ranks = listMembers(declaration, { mesh, rank: world.rank });
    if (!ranks.includes(world.rank)) return [name, undefined];
    const members = ranks.join(' ');
    const group = created.get(members) ?? world.createGroup({ name, ranks });
    created.set(members, group);
    return [name, group];
  });
  return {
    ...Object.fromEntries(entries),
    close: () => {
      for (const group of created.values()) group.close();
    },
  };
}

import { ConfigurationError } from '@mtl/errors';
import { denseAxes, type GroupDeclaration, type MeshAxis, membersOf, type ProcessMesh } from '@mtl/layout';
import type { ProcessGroup } from '../process-group.js';
import type { World } from '../world.js';

/**
 * The declared groups of a rank, by name; undefined is a group of stages that are not this rank's. A group of
 * one is there as well: its operations do nothing.
 */
export type MeshGroups<Declared extends Readonly<Record<string, GroupDeclaration>>> = {
  readonly [Name in keyof Declared]: Declared[Name] extends readonly MeshAxis[]
    ? ProcessGroup
    : ProcessGroup | undefined;
} & { close(): void };

/**
 * Creates the groups of this rank that are declared and no others, in the order of the declarations, which
 * all ranks must give alike. Groups with the same members are the same object, under the first of their
 * names: one communicator.
 *
 * @throws ConfigurationError `MTL_MESH` when the mesh is of another size than the world
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
    const ranks = membersOf(declaration, { mesh, rank: world.rank });
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

import { ConfigurationError } from '@mtl/errors';
import type { ProcessGroup } from '../process-group.js';
import type { MeshAxis, ProcessMesh } from '../process-mesh.js';
import type { World } from '../world.js';

/** The groups of a rank in a mesh. A group of one is there as well: its operations do nothing. */
export interface MeshGroups {
  /** One along each axis: the ranks that differ from this one only there. */
  readonly tp: ProcessGroup;
  readonly cp: ProcessGroup;
  readonly dp: ProcessGroup;
  readonly pp: ProcessGroup;
  /** dp and cp: the ranks that hold the same parameters, over which gradients are reduced. */
  readonly dpCp: ProcessGroup;
  /** tp and cp: the ranks over which the tokens and features of one micro-batch are sharded. */
  readonly tpCp: ProcessGroup;
  /** tp and pp: the ranks that hold one copy of the model together. */
  readonly model: ProcessGroup;
  /** The two pipeline stages that share the word embedding; undefined on the others. */
  readonly embedding: ProcessGroup | undefined;
  close(): void;
}

/** In the order in which all ranks create them. */
const axesOfGroups: Readonly<Record<Exclude<keyof MeshGroups, 'embedding' | 'close'>, readonly MeshAxis[]>> =
  {
    tp: ['tp'],
    cp: ['cp'],
    dp: ['dp'],
    pp: ['pp'],
    dpCp: ['dp', 'cp'],
    tpCp: ['tp', 'cp'],
    model: ['tp', 'pp'],
  };

/**
 * Creates the groups of this rank, in the same order on all ranks. Groups with the same members are the same
 * object.
 *
 * `ends`: the pipeline ranks of the first and of the last layers; default: the first and the last
 * rank
 *
 * @throws ConfigurationError MTL_MESH when the mesh is of another size than the world
 */
export function createMeshGroups(
  world: World,
  mesh: ProcessMesh,
  { ends = [0, mesh.sizes.pp - 1] }: { readonly ends?: readonly [number, number] } = {},
): MeshGroups {
  if (mesh.worldSize !== world.size) {
    const { tp, cp, dp, pp } = mesh.sizes;
    throw new ConfigurationError(
      'MTL_MESH',
      `a mesh of ${tp} x ${cp} x ${dp} x ${pp} (tp, cp, dp, pp) for ${world.size} processes`,
      {
        expected: `${mesh.worldSize} processes`,
        remedy: `start ${mesh.worldSize} processes, or choose sizes whose product is ${world.size}`,
      },
    );
  }
  // the same members, the same communicator: fewer threads and buffers
  const created = new Map<string, ProcessGroup>();
  const create = (name: string, ranks: readonly number[]): ProcessGroup => {
    const key = ranks.join(' ');
    const group = created.get(key) ?? world.createGroup({ name, ranks });
    created.set(key, group);
    return group;
  };
  const names = Object.keys(axesOfGroups) as (keyof typeof axesOfGroups)[];
  const groups = Object.fromEntries(
    names.map((name) => [name, create(name, mesh.groupOf(world.rank, axesOfGroups[name]))]),
  ) as Record<keyof typeof axesOfGroups, ProcessGroup>;
  const coordinates = mesh.coordinatesOf(world.rank);
  const stages = [...new Set(ends)].sort((a, b) => a - b);
  const members = stages.map((pp) => mesh.rankOf({ ...coordinates, pp }));
  return {
    ...groups,
    embedding: stages.includes(coordinates.pp) ? create('embedding', members) : undefined,
    close: () => {
      for (const group of created.values()) group.close();
    },
  };
}

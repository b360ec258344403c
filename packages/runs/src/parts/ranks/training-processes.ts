import { broadcastJson, createMeshGroups, type World } from '@mtl/comm';
import { type AxisSizes, groupsOfRun, meshOfRun } from '@mtl/configuration/strategies';
import {
  checkOptions,
  listOption,
  type OptionChecks,
  objectOption,
  required,
  switchOption,
  wholeNumberOption,
} from '@mtl/errors/options';
import {
  type GroupDeclaration,
  type MeshAxis,
  type MeshCoordinates,
  type ProcessMesh,
  type ShareOfBatch,
  shareOfBatch,
} from '@mtl/layout';
import type { GroupsByRole } from '@mtl/optimizer';
import { worldOption } from './option-checks.js';
import { waitTogether } from './wait-together.js';

export interface TrainingProcessesOptions {
  /** Undefined for a single process. */
  readonly world: World | undefined;
  readonly parallel: AxisSizes;
  /**
   * The pipeline ranks that hold the first and the last layer. Default: the first and the last pipeline rank.
   */
  readonly ends?: readonly [number, number] | undefined;
  /**
   * True if each strategy gets separate groups, even if two groups have the same members, so that a dry run
   * can count the traffic of each group. Default: false, so that groups with the same members share a
   * communicator.
   */
  readonly areApart?: boolean;
}

const checks: OptionChecks<TrainingProcessesOptions> = {
  world: worldOption,
  parallel: required(objectOption('the layout of a configuration')),
  ends: listOption(wholeNumberOption(0), { what: 'the first and the last pipeline rank' }),
  areApart: switchOption,
};

/**
 * A process's view of the training run's processes: its coordinates in the mesh, its groups, and ways to wait
 * for the other processes.
 */
export class TrainingProcesses {
  readonly mesh: ProcessMesh;
  readonly coordinates: MeshCoordinates;
  /** The share of every batch that this process computes. */
  readonly shareOfBatch: ShareOfBatch;
  /** This process's groups; empty for a single process. */
  readonly groups: GroupsByRole;
  /** True on rank 0, which prints messages and writes files. */
  readonly isFirst: boolean;

  /** @throws ConfigurationError MTL_OPTION */
  constructor(options: TrainingProcessesOptions) {
    checkOptions(options, { of: 'TrainingProcesses', checks });
    const { world, parallel, ends, areApart = false } = options;
    this.mesh = meshOfRun(parallel);
    const rank = world?.rank ?? 0;
    this.coordinates = this.mesh.coordinatesOf(rank);
    this.shareOfBatch = shareOfBatch(this.mesh, rank);
    this.isFirst = rank === 0;
    this.groups =
      world === undefined || world.size === 1
        ? {}
        : groupsAlong(world, { mesh: this.mesh, parallel, ends, areApart });
  }

  /** Returns `value` of rank 0 on all ranks. The value must be representable as JSON. */
  agree<Value>(value: Value): Value {
    const { world } = this.groups;
    return world === undefined ? value : broadcastJson(world, value);
  }

  /**
   * Runs this rank's task and waits, without a time limit, until all ranks have finished their tasks. During
   * the wait, every rank communicates at least every `intervalMs` milliseconds, so that the timeout of
   * collectives still detects a rank that hangs.
   */
  async together<Result>(task: () => Promise<Result>, how: { intervalMs?: number } = {}): Promise<Result> {
    return await waitTogether(this.groups.world, task, how);
  }

  /**
   * Prepares something, such as files, in storage that hosts may or may not share. Rank 0 runs the task
   * first. Then the first rank on every other host runs the task: it finds the result of rank 0 if the
   * storage is shared, and otherwise prepares its own result. All remaining ranks run the task last, and find
   * a result.
   */
  async prepare<Result>(
    task: () => Promise<Result>,
    { isFirstOnHost }: { isFirstOnHost: boolean },
  ): Promise<Result> {
    const phase = this.isFirst ? 0 : isFirstOnHost ? 1 : 2;
    let result: Result | undefined;
    for (const current of [0, 1, 2]) {
      await this.together(async () => {
        if (current === phase) result = await task();
      });
    }
    return result as Result;
  }
}

/**
 * Creates the groups that a run's strategies need on this process. All processes must create them in the same
 * order.
 */
function groupsAlong(
  world: World,
  {
    mesh,
    parallel,
    ends,
    areApart,
  }: Pick<TrainingProcessesOptions, 'ends' | 'parallel'> & {
    readonly mesh: ProcessMesh;
    readonly areApart: boolean;
  },
): GroupsByRole {
  const listAxes = (declaration: GroupDeclaration): readonly MeshAxis[] =>
    'axes' in declaration ? declaration.axes : declaration;
  const declared = Object.entries(groupsOfRun(mesh, { ends, parallel })).filter(([, { declaration }]) =>
    listAxes(declaration).some((axis) => mesh.sizes[axis] > 1),
  );
  const parts = areApart ? [...new Set(declared.map(([, { countsAs }]) => countsAs))] : [undefined];
  const created = parts.map((part) => {
    const own = declared.filter(([, { countsAs }]) => part === undefined || countsAs === part);
    const declarations = own.map(([name, { declaration }]) => [name, declaration] as const);
    const { close: _, ...groups } = createMeshGroups(world, mesh, Object.fromEntries(declarations));
    return groups;
  });
  return Object.assign({}, ...created, { world: world.group });
}

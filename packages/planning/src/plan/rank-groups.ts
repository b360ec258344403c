import type { MetaOperation } from '@mtl/comm';
import { type AxisSizes, groupsOfRun, meshOfRun } from '@mtl/configuration/strategies';
import type { GroupUse, RankGroup } from '@mtl/cost-model';
import { listMembers } from '@mtl/layout';

/**
 * Returns the group that a strategy declares under `name`, such as `tp`. For any other name, returns the
 * group of all ranks.
 */
export type GroupNamed = (name: string) => RankGroup;

/**
 * Returns a function that finds a run's groups by name, with the number of ranks on a node. The groups are
 * declared by strategies (see `groupsOfRun`). For any other name, the function returns the group of all
 * ranks.
 */
export function rankGroups(parallel: AxisSizes, gpusPerNode: number): GroupNamed {
  const mesh = meshOfRun(parallel);
  const declared = groupsOfRun(mesh, { parallel });
  const groupNamed = (name: string): RankGroup => {
    const { declaration, countsAs } = declared[name] ?? { countsAs: 'pp' };
    const ranks = declaration && listMembers(declaration, { mesh, rank: 0 });
    const [first = 0, second = 1] = ranks ?? [];
    const [size, distance] = [ranks?.length ?? mesh.worldSize, second - first];
    const isInside = distance * (size - 1) < gpusPerNode;
    const perNode = isInside ? size : Math.max(1, Math.floor(gpusPerNode / distance));
    return { axis: countsAs, role: name, size, perNode: Math.min(size, perNode) };
  };
  // results are cached, because every collective of a recorded step needs its group
  const known = new Map<string, RankGroup>();
  return (name) => {
    const group = known.get(name) ?? groupNamed(name);
    known.set(name, group);
    return group;
  };
}

/**
 * Returns a function that maps a group's name to its communicator's name: the name of the first declared
 * group with the same members. In a run, groups with the same members share a communicator, but in a dry run
 * they are separate.
 */
export function communicatorNames(parallel: AxisSizes): (name: string) => string {
  const mesh = meshOfRun(parallel);
  const declared = Object.entries(groupsOfRun(mesh, { parallel }));
  const membersOfGroup = (name: string): string | undefined => {
    const [, group] = declared.find(([each]) => each === name) ?? [];
    return group && listMembers(group.declaration, { mesh, rank: 0 }).join(' ');
  };
  const nameCommunicator = (name: string): string => {
    const members = membersOfGroup(name);
    return declared.find(([each]) => membersOfGroup(each) === members)?.[0] ?? name;
  };
  // results are cached, because every collective of a recorded step needs its communicator's name
  const known = new Map<string, string>();
  return (name) => {
    const communicator = known.get(name) ?? nameCommunicator(name);
    known.set(name, communicator);
    return communicator;
  };
}

/** Returns true if neighbouring pipeline stages are on the same node. */
export function isPipelineInside(parallel: AxisSizes, gpusPerNode: number): boolean {
  return meshOfRun(parallel).worldSize <= gpusPerNode;
}

interface Use {
  hasCollectives: boolean;
  readonly receivers: Set<number>;
  readonly senders: Set<number>;
}

/**
 * Records the groups that a rank of a dry run uses for communication on its device, and the kinds of
 * operations that use each group.
 */
export class UsedGroups {
  readonly #groupNamed: GroupNamed;
  readonly #nameCommunicator: (name: string) => string;
  readonly #uses = new Map<string, Use>();

  /** @param nameCommunicator maps a group's name to its communicator's name (see `communicatorNames`) */
  constructor(groupNamed: GroupNamed, nameCommunicator: (name: string) => string) {
    this.#groupNamed = groupNamed;
    this.#nameCommunicator = nameCommunicator;
  }

  add({ group: name, operation, isOnDevice, peer }: MetaOperation): void {
    if (!isOnDevice) return;
    const group = this.#nameCommunicator(name);
    const use = this.#uses.get(group) ?? {
      hasCollectives: false,
      receivers: new Set<number>(),
      senders: new Set<number>(),
    };
    this.#uses.set(group, use);
    if (operation === 'send') use.receivers.add(peer!);
    else if (operation === 'receive') use.senders.add(peer!);
    else use.hasCollectives = true;
  }

  /** Returns the groups in the order of their first operations. */
  uses(): GroupUse[] {
    return [...this.#uses].map(([name, { hasCollectives, receivers, senders }]) => ({
      group: this.#groupNamed(name),
      hasCollectives,
      numReceivers: receivers.size,
      numSenders: senders.size,
    }));
  }
}

import type { CommunicationOperation } from '@mtl/comm';
import {
  type AxisSizes,
  groupsOfRun,
  meshOfRun,
  type OptimizedLayout,
  optimizerSharing,
} from '@mtl/configuration/strategies';
import { type MeshView, reductionAxes } from '@mtl/layout';
import { instanceRoles } from '@mtl/optimizer';

/** A rank's communication that is counted under one name. */
export interface CommunicationScope {
  /** The name in reports: an axis, or the role of a process group. */
  readonly name: string;
  /** The role of the process group in which the communication happens. */
  readonly role: string;
  /**
   * The part of the communication that grows with the number of micro-batches. `all`: all communication of
   * passes. `units`: units of sharded states, which the first micro-batch of a step may gather more often
   * than later micro-batches. Undefined if there is none: gradients are reduced once in a step, even if the
   * reduction begins within the last pass.
   */
  readonly perMicroBatch: 'all' | 'units' | undefined;
  /** The operation that is counted. Default: all operations. */
  readonly operation?: CommunicationOperation | undefined;
}

/**
 * Returns a run's scopes: the groups that strategies declare, and the group of all ranks. A group in several
 * scopes is counted only in the first. The reduction of gradients over data-parallel replicas may include
 * context-parallel ranks. It is counted under the name of the replicas' axis, and the axis's own group is
 * left out. Sums over instances are counted under their roles.
 */
export function communicationScopes(parallel: AxisSizes & OptimizedLayout): readonly CommunicationScope[] {
  const reductions = Object.entries(reductionAxes) as [MeshView, (typeof reductionAxes)[MeshView]][];
  const nameOfView = new Map(reductions.map(([view, axes]): [string, string] => [view, axes.at(-1)!]));
  const namesOfViews = new Set(nameOfView.values());
  const declared = Object.entries(groupsOfRun(meshOfRun(parallel), { parallel }));
  const ofStores = dividesUnits(parallel) ? ('units' as const) : undefined;
  const scopes = declared
    .filter(([role]) => !namesOfViews.has(role))
    .map(([role, { declaration }]) => ({
      name: nameOfView.get(role) ?? role,
      role,
      perMicroBatch: nameOfView.has(role)
        ? ofStores
        : 'stages' in declaration || rolesOfInstances.has(role)
          ? undefined
          : ('all' as const),
    }));
  return [...scopes, { name: 'world', role: 'world', perMicroBatch: undefined }];
}

/**
 * The roles of the groups across instances. The sums over these groups are computed after the passes of a
 * step.
 */
export const rolesOfInstances: ReadonlySet<string> = new Set(Object.values(instanceRoles));

/** Returns true if ranks gather or reduce units of sharded states in every micro-batch. */
const dividesUnits = (parallel: OptimizedLayout): boolean =>
  optimizerSharing(parallel).store.divides.includes('gradients');

/**
 * Returns the scopes in which sharded states are gathered and reduced. Undefined if there is no such
 * communication in micro-batches or between instances.
 */
export function shardingScopes(
  parallel: OptimizedLayout,
): { readonly [Key in keyof ShardingTraffic]: readonly CommunicationScope[] } | undefined {
  const perMicroBatch = dividesUnits(parallel) ? ('units' as const) : undefined;
  const { numInstances } = optimizerSharing(parallel);
  if (perMicroBatch === undefined && numInstances === 1) return undefined;
  const ofRoles = (
    roles: Iterable<string>,
    counted: Pick<CommunicationScope, 'operation' | 'perMicroBatch'>,
  ): CommunicationScope[] => [...roles].map((role) => ({ name: role, role, ...counted }));
  const ofStores = Object.keys(reductionAxes);
  return {
    gatheredBytes: ofRoles(ofStores, { operation: 'allGather', perMicroBatch }),
    reducedBytes: ofRoles(ofStores, { operation: 'reduceScatter', perMicroBatch }),
    ...(numInstances === 1
      ? {}
      : {
          acrossInstancesBytes: ofRoles(rolesOfInstances, {
            operation: 'allReduce',
            perMicroBatch: undefined,
          }),
        }),
  };
}

/** The bytes that a rank sends in one step for states that are sharded over the ranks of a reduction. */
export interface ShardingTraffic {
  /** The bytes sent to gather parameters, and gradient matrices that an update rule needs whole. */
  readonly gatheredBytes: number;
  /** For gradients, within an instance. */
  readonly reducedBytes: number;
  /** The bytes of gradients that a rank sends to other instances; absent for a single instance. */
  readonly acrossInstancesBytes?: number;
}

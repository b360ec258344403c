import { type AxisSizes, groupsOfRun, meshOfRun } from '@mtl/configuration/strategies';
import { type MeshView, reductionAxes } from '@mtl/layout';

/** The communication of a rank that is counted under one name. */
export interface CommunicationScope {
  /** The name in reports: an axis, or the role of a group. */
  readonly name: string;
  /** The role of the group in which the communication happens. */
  readonly role: string;
  /** True if the passes of every micro-batch communicate in this scope. */
  readonly isOfPasses: boolean;
}

/**
 * Returns the scopes of a run: the groups that strategies declare, and the group of all ranks. A group in
 * several scopes is counted only in the first. The reduction of gradients over data-parallel replicas may
 * include context-parallel ranks. It is counted under the name of the replicas' axis, and the axis's own
 * group is left out.
 */
export function communicationScopes(parallel: AxisSizes): readonly CommunicationScope[] {
  const reductions = Object.entries(reductionAxes) as [MeshView, (typeof reductionAxes)[MeshView]][];
  const nameOfView = new Map(reductions.map(([view, axes]): [string, string] => [view, axes.at(-1)!]));
  const namesOfViews = new Set(nameOfView.values());
  const declared = Object.entries(groupsOfRun(meshOfRun(parallel), { parallel }));
  const scopes = declared
    .filter(([role]) => !namesOfViews.has(role))
    .map(([role, { declaration }]) => ({
      name: nameOfView.get(role) ?? role,
      role,
      isOfPasses: !nameOfView.has(role) && !('stages' in declaration),
    }));
  return [...scopes, { name: 'world', role: 'world', isOfPasses: false }];
}

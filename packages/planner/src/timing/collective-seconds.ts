import type { CollectiveOperation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { linkOf } from './link-of.js';

/**
 * Time of a ring: (n - 1) / n of the bytes for a gather or a scatter, twice that for an all-reduce. Between
 * nodes, the ranks of a group on one node share the adapters that belong to them.
 */
export function collectiveSeconds(
  { collective, bytes, group }: Pick<CollectiveOperation, 'collective' | 'bytes' | 'group'>,
  { hardware, software }: Profile,
): number {
  if (group.size === 1) return 0;
  const { adapters = group.perNode } = group;
  const rounds = collective === 'all-reduce' ? 2 : 1;
  const isInside = group.size <= group.perNode;
  const link = linkOf(hardware, isInside);
  const inside = hardware.linkInside.bytesPerSecond.value * hardware.linkInside.efficiency.value;
  const between = link.bytesPerSecond.value * link.efficiency.value * adapters;
  const bandwidth = isInside ? inside : Math.min(inside, between * software.linkFactor.value);
  const latency = link.latencySeconds.value;
  const steps = isInside ? group.size - 1 : group.size / group.perNode - 1;
  return rounds * ((((group.size - 1) / group.size) * bytes) / bandwidth + steps * latency);
}

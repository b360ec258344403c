import type { CollectiveOperation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';

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
  const { linkInside, linkBetween } = hardware;
  const isInside = group.size <= group.perNode;
  const inside = linkInside.bytesPerSecond.value * linkInside.efficiency.value;
  const between = linkBetween.bytesPerSecond.value * linkBetween.efficiency.value * adapters;
  const bandwidth = isInside ? inside : Math.min(inside, between * software.linkFactor.value);
  const latency = (isInside ? linkInside : linkBetween).latencySeconds.value;
  const steps = isInside ? group.size - 1 : group.size / group.perNode - 1;
  return rounds * ((((group.size - 1) / group.size) * bytes) / bandwidth + steps * latency);
}

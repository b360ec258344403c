import { ConfigurationError } from '@mtl/errors';
import type { CollectiveOperation } from '../operations/operation.js';
import type { HardwareProfile, Link } from '../profiles/hardware-profile.js';
import type { Profile } from '../profiles/profile.js';
import { secondsOfBytes } from './interpolation.js';

/** A collective or message between processes of one machine. */
type MeasuredCommunication = Pick<CollectiveOperation, 'bytes' | 'collective'> & {
  readonly group: { readonly size: number };
};

/**
 * Returns the measured time of a collective or a message within a machine; undefined without measurements. If
 * the size n of the group differs from the measured size, the time is scaled by `(n - 1) / n`, the fraction
 * of the bytes that a rank sends.
 */
function measuredSeconds(
  { collective, bytes, group }: MeasuredCommunication,
  hardware: HardwareProfile,
): number | undefined {
  if (hardware.state !== 'measured') return undefined;
  const { collectives, numProcesses } = hardware.rates[0]!;
  const named = (wanted: string) => collectives?.find(({ name }) => name === wanted)?.points;
  const points = named(collective) ?? (collective === 'all-to-all' ? named('all-gather') : undefined);
  if (points === undefined) return undefined;
  const seconds = secondsOfBytes(points, bytes);
  if (collective === 'message' || numProcesses === 1) return seconds;
  const sent = (size: number): number => (size - 1) / size;
  return (seconds * sent(group.size)) / sent(numProcesses);
}

/**
 * Returns the time of a collective. A ring transfers `(n - 1) / n` of the bytes for an all-gather or a
 * reduce-scatter, and twice this amount for an all-reduce. Between nodes, the ranks of a group on one node
 * share their adapters.
 *
 * In an all-to-all, each rank sends a part to every other rank. Within a node, it transfers the same number
 * of bytes as an all-gather. Between nodes, all ranks of a node send their parts for other nodes at once, and
 * parts are not forwarded.
 *
 * Messages to neighbours take the time of the slowest message. Between nodes, one message leaves each node,
 * through one adapter.
 */
export function collectiveSeconds(
  { collective, bytes, group }: Pick<CollectiveOperation, 'collective' | 'bytes' | 'group'>,
  { hardware, software }: Profile,
): number {
  if (group.size === 1) return 0;
  const isInside = group.size <= group.perNode;
  const measured = isInside ? measuredSeconds({ collective, bytes, group }, hardware) : undefined;
  if (measured !== undefined) return measured;
  const { adapters = group.perNode } = group;
  const rounds = collective === 'all-reduce' ? 2 : 1;
  const link = chooseLink(hardware, isInside);
  const inside = hardware.linkInside.bytesPerSecond.value * hardware.linkInside.efficiency.value;
  const between = link.bytesPerSecond.value * link.efficiency.value * adapters;
  const bandwidth = isInside ? inside : Math.min(inside, between * software.linkFactor.value);
  const latency = link.latencySeconds.value;
  if (collective === 'message') {
    return latency + bytes / (link.bytesPerSecond.value * link.efficiency.value);
  }
  if (collective === 'all-to-all' && !isInside) {
    const leaving = (group.perNode * bytes * (group.size - group.perNode)) / group.size;
    const staying = (bytes * (group.perNode - 1)) / group.size;
    return Math.max(leaving / (between * software.linkFactor.value), staying / inside) + latency;
  }
  const steps = isInside ? group.size - 1 : group.size / group.perNode - 1;
  return rounds * ((((group.size - 1) / group.size) * bytes) / bandwidth + steps * latency);
}

/**
 * Returns the link within a node if `isInside` is true, otherwise the link between nodes.
 *
 * @throws ConfigurationError `MTL_PROFILE` for a profile in which no link between nodes was measured
 */
export function chooseLink(hardware: HardwareProfile, isInside: boolean): Link {
  const link = isInside ? hardware.linkInside : hardware.linkBetween;
  if (link !== undefined) return link;
  throw new ConfigurationError('MTL_PROFILE', `${hardware.name}: no link between machines was measured`, {
    expected: `at most ${hardware.gpusPerNode.value} processes, all on one machine`,
    remedy: 'add linkBetween to the profile',
  });
}

interface OverlappedSecondsOptions {
  /** Seconds of the computation that can overlap with the communication. */
  readonly behind: number;
  /** The fraction of the communication that starts only when the computation has ended. Default: 0. */
  readonly last?: number;
  readonly profile: Pick<Profile, 'hardware'>;
}

/**
 * Returns the seconds that communication adds to computation: the time that does not overlap, and the
 * slowdown by the overlapped part.
 */
export function overlappedSeconds(
  seconds: number,
  { behind, last = 0, profile }: OverlappedSecondsOptions,
): number {
  const waiting = Math.max(last * seconds, seconds - behind);
  return waiting + (seconds - waiting) * profile.hardware.overlapCost.value;
}

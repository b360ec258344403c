import { ConfigurationError } from '@mtl/errors';
import type { CollectiveOperation } from '../operations/operation.js';
import type { HardwareProfile, Link } from '../profiles/hardware-profile.js';
import type { Profile } from '../profiles/profile.js';
import { secondsOfBytes } from './interpolation.js';

/** A communication of processes of one machine. */
type MeasuredCommunication = Pick<CollectiveOperation, 'bytes' | 'collective'> & {
  readonly group: { readonly size: number };
};

/**
 * Returns the time of a collective or a message within a machine where they were measured, in a group of
 * another size in proportion to the (n - 1) / n of the bytes that a rank sends; else undefined.
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
 * Returns the time of a ring: (n - 1) / n of the bytes for a gather or a scatter, twice that for an
 * all-reduce. Between nodes, the ranks of a group on one node share the adapters that belong to them. An
 * all-to-all sends to each rank its part: within a node as many bytes as a gather, but between nodes all
 * ranks of a node send at once the parts of others, which no ring passes on. Messages to neighbours take as
 * long as the slowest of them: between nodes one leaves each of them, by one adapter.
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
  const link = linkOf(hardware, isInside);
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
 * Returns the link inside a node or between nodes.
 *
 * @throws ConfigurationError `MTL_PROFILE` for a profile in which no link between nodes was measured
 */
export function linkOf(hardware: HardwareProfile, isInside: boolean): Link {
  const link = isInside ? hardware.linkInside : hardware.linkBetween;
  if (link !== undefined) return link;
  throw new ConfigurationError('MTL_PROFILE', `${hardware.name}: no link between machines was measured`, {
    expected: `at most ${hardware.gpusPerNode.value} processes, those of one machine`,
    remedy: 'add linkBetween to the profile',
  });
}

interface OverlappedSecondsOptions {
  /** Seconds of the computation that can hide it. */
  readonly behind: number;
  /** Part of the communication that begins when the computation has ended. Default 0. */
  readonly last?: number;
  readonly profile: Pick<Profile, 'hardware'>;
}

/**
 * Returns the seconds that communication adds to computation: those that are not hidden, and the cost of
 * hiding.
 */
export function overlappedSeconds(
  seconds: number,
  { behind, last = 0, profile }: OverlappedSecondsOptions,
): number {
  const waiting = Math.max(last * seconds, seconds - behind);
  return waiting + (seconds - waiting) * profile.hardware.overlapCost.value;
}

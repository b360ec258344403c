import { ConfigurationError } from '@mtl/errors';
import type { HardwareProfile } from '../profiles/hardware-profile.js';
import type { Link } from '../profiles/link.js';

/**
 * The link inside a node or between nodes.
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

import type { ParsedFlags } from '@mtl/configuration';
import type { Profile } from '@mtl/planner';

/**
 * The flags of a run on the machine of a profile: on device cuda where the profile is a model of a GPU,
 * unless --device is given. What was measured is of the device that the flags name.
 */
export function withDeviceOfProfile(flags: ParsedFlags, { name, hardware }: Profile): ParsedFlags {
  if (hardware.state === 'measured' || flags.given.has('device')) return flags;
  return {
    ...flags,
    values: { ...flags.values, device: 'cuda' },
    sources: new Map([...flags.sources, ['device', `profile ${name}`]]),
  };
}

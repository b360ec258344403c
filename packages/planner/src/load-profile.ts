import { readFileSync } from 'node:fs';
import { ConfigurationError, nearestName } from '@mtl/errors';
import { z } from 'zod';
import { hardwareProfile } from './profiles/hardware-profile.js';
import type { Profile } from './profiles/profile.js';
import { softwareProfile } from './profiles/software-profile.js';

const profileList = z.strictObject({
  version: z.literal(1),
  profiles: z.record(z.string(), z.strictObject({ hardware: z.string(), software: z.string() })),
});

/**
 * A shipped profile by its name, such as `a100-80gb-megatron`.
 *
 * @throws ConfigurationError `MTL_PROFILE_NAME` with the names there are
 */
export function loadProfile(name: string): Profile {
  const { profiles } = profileList.parse(read('profiles'));
  if (!Object.hasOwn(profiles, name)) {
    const near = nearestName(name, Object.keys(profiles));
    throw new ConfigurationError('MTL_PROFILE_NAME', `unknown profile ${name}`, {
      expected: `one of ${Object.keys(profiles).join(', ')}`,
      ...(near === undefined ? {} : { remedy: `did you mean ${near}?` }),
    });
  }
  const { hardware, software } = profiles[name]!;
  return {
    name,
    hardware: hardwareProfile.parse(read(`hardware/${hardware}`)),
    software: softwareProfile.parse(read(`software/${software}`)),
  };
}

/** Their names. */
export function profileNames(): readonly string[] {
  return Object.keys(profileList.parse(read('profiles')).profiles);
}

function read(path: string): unknown {
  return JSON.parse(readFileSync(new URL(`../profiles/${path}.json`, import.meta.url), 'utf8'));
}

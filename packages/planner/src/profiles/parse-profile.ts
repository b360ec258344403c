import { ConfigurationError } from '@mtl/errors';
import { z } from 'zod';
import { hardwareProfile } from './hardware-profile.js';
import type { Profile } from './profile.js';
import { softwareProfile } from './software-profile.js';

const wholeProfile = z
  .strictObject({ name: z.string(), hardware: hardwareProfile, software: softwareProfile })
  .refine(({ hardware, software }) => hardware.state !== 'measured' || software.operations === 'recorded', {
    path: ['software', 'operations'],
    message: 'rates are measured of recorded operations',
  });

/**
 * Checks a profile of one's own: an object, as JSON gives it, with `name`, `hardware` and `software`.
 *
 * @throws ConfigurationError `MTL_PROFILE` with the first key that is wrong
 */
export function parseProfile(value: unknown, source = 'the profile'): Profile {
  const result = wholeProfile.safeParse(value);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  throw new ConfigurationError('MTL_PROFILE', `${source}: ${path.join('.') || 'the whole'}: ${message}`, {
    expected:
      'name, hardware and software, where every constant is { "value": a number above 0, "source": "..." }',
    remedy: 'start from a shipped profile: loadProfile(name) returns such an object',
  });
}

import { ConfigurationError } from '@mtl/errors';
import type { GpuProfile, HardwareProfile } from './hardware-profile.js';
import type { ListedSoftware, SoftwareProfile } from './software-profile.js';

/** A machine with the program that runs on it. */
export interface Profile {
  readonly name: string;
  readonly hardware: HardwareProfile;
  readonly software: SoftwareProfile;
}

/** A model of a GPU, with a program whose operations are listed. */
export interface ListedProfile extends Profile {
  readonly hardware: GpuProfile;
  readonly software: ListedSoftware;
}

/**
 * The profile, if its operations are listed.
 *
 * @throws ConfigurationError `MTL_PROFILE` if they have to be recorded
 */
export function listedProfile(profile: Profile): ListedProfile {
  const { name, hardware, software } = profile;
  if (software.operations === 'listed' && hardware.state !== 'measured') return { name, hardware, software };
  throw new ConfigurationError('MTL_PROFILE', `${name} does not list the operations of a step`, {
    expected: 'a model of a GPU with software whose operations are listed, such as a100-80gb-megatron',
    remedy: 'predict a step of @mtl with mtl plan, which records its operations',
  });
}

import type { HardwareProfile } from './hardware-profile.js';
import type { SoftwareProfile } from './software-profile.js';

/** A GPU with the program that runs on it. */
export interface Profile {
  readonly name: string;
  readonly hardware: HardwareProfile;
  readonly software: SoftwareProfile;
}

import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ConfigurationError, nearestName } from '@mtl/errors';
import * as z from 'zod';
import { hardwareProfile } from './profiles/hardware-profile.js';
import { type Profile, parseProfile, softwareProfile } from './profiles/profile.js';

const profileList = z.strictObject({
  version: z.literal(1),
  profiles: z.record(z.string(), z.strictObject({ hardware: z.string(), software: z.string() })),
});

/**
 * Loads a bundled profile by its name, such as `a100-80gb-megatron`.
 *
 * @throws ConfigurationError `MTL_PROFILE_NAME`, which lists the existing names
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

/** Returns the names of the bundled profiles. */
export function profileNames(): readonly string[] {
  return Object.keys(profileList.parse(read('profiles')).profiles);
}

function read(path: string): unknown {
  return JSON.parse(readFileSync(new URL(`../profiles/${path}.json`, import.meta.url), 'utf8'));
}

/**
 * Returns the path of this machine's calibrated profile: `$MTL_PROFILE`, or a file in the user's
 * configuration directory.
 */
export function calibratedProfilePath(variables: Readonly<Record<string, string | undefined>>): string {
  const { MTL_PROFILE, XDG_CONFIG_HOME } = variables;
  return MTL_PROFILE ?? join(XDG_CONFIG_HOME ?? join(homedir(), '.config'), 'mtl', 'profile.json');
}

interface OpenProfileOptions {
  /**
   * The name of a bundled profile, or the path of a file that ends in .json. Default: the calibrated profile
   * of this machine.
   */
  readonly name?: string | undefined;
  /** The environment variables: process.env. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/** Returns true if a profile is named, or this machine has been calibrated. */
export function isProfileKnown({ name, variables }: OpenProfileOptions): boolean {
  return name !== undefined || existsSync(calibratedProfilePath(variables));
}

/**
 * Opens a profile: a bundled profile, or a profile in a file. Without a name, opens the calibrated profile of
 * this machine.
 *
 * @throws ConfigurationError `MTL_PROFILE_NAME` for an unknown name, or if there is neither a name nor a
 *   calibration; `MTL_PROFILE` for a file that cannot be read or is not a profile
 */
export function openProfile({ name, variables }: OpenProfileOptions): Profile {
  if (name !== undefined) return name.endsWith('.json') ? readProfile(name) : loadProfile(name);
  const path = calibratedProfilePath(variables);
  if (existsSync(path)) return readProfile(path);
  throw new ConfigurationError('MTL_PROFILE_NAME', `this machine has no profile: ${path} not found`, {
    expected: `the name of a profile (--profile): one of ${profileNames().join(', ')}, or a FILE.json`,
    remedy:
      'run mtl calibrate, which measures one, or name the GPU that the run is planned for: --profile a100-80gb',
  });
}

function readProfile(path: string): Profile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigurationError('MTL_PROFILE', `${path}: ${(error as Error).message}`, {
      expected: 'a file that can be read',
      cause: error,
    });
  }
  try {
    return parseProfile(JSON.parse(text), path);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ConfigurationError('MTL_PROFILE', `${path} is not JSON: ${error.message}`, {
      expected: 'a profile, see the README of @mtl/cost-model',
      cause: error,
    });
  }
}

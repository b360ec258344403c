import type { Profile } from '../profiles/profile.js';

export interface OverlappedSecondsOptions {
  /** Seconds of the computation that can hide it. */
  readonly behind: number;
  /** Part of the communication that begins when the computation has ended. Default 0. */
  readonly last?: number;
  readonly profile: Pick<Profile, 'hardware'>;
}

/** What communication of so many seconds adds to computation: what is not hidden, and what hiding costs. */
export function overlappedSeconds(
  seconds: number,
  { behind, last = 0, profile }: OverlappedSecondsOptions,
): number {
  const waiting = Math.max(last * seconds, seconds - behind);
  return waiting + (seconds - waiting) * profile.hardware.overlapCost.value;
}

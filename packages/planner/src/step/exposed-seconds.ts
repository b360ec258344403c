import type { CollectiveOperation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { collectiveSeconds } from '../timing/collective-seconds.js';
import { overlappedSeconds } from '../timing/overlapped-seconds.js';

/** Collectives of data-parallel ranks, and whether passes can hide them. */
export interface DataCollectives {
  readonly operations: readonly CollectiveOperation[];
  readonly isOverlapped: boolean;
}

/** Part of a reduction that the end of backward leaves: its last bucket, where there are several. */
const lastBucket = ({ length }: readonly unknown[]): number => (length > 1 ? 1 / length : 0.05);

/**
 * What passes that take `behind` seconds do not hide of collectives, and what hiding the others costs them.
 */
export function exposedSeconds(
  { operations, isOverlapped }: DataCollectives,
  { behind, profile }: { readonly behind: number; readonly profile: Profile },
): number {
  const seconds = operations.reduce((total, each) => total + collectiveSeconds(each, profile), 0);
  if (!isOverlapped) return seconds;
  return overlappedSeconds(seconds, { behind, last: lastBucket(operations), profile });
}

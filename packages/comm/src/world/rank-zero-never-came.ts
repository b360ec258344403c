import { CommunicationError, type MtlError } from '@mtl/errors';

export interface RankZeroNeverCameOptions {
  /** The rank that waited. */
  readonly rank: number;
  readonly waitedMs: number;
  /** What follows the time in the message: what was waited for, or the last try. */
  readonly detail: string;
  /** The variables that must be the same for all ranks, in words. */
  readonly alike: string;
  readonly cause?: MtlError;
}

/** The error `MTL_TIMEOUT` of a rank whose job has no store: rank 0 holds it. */
export function rankZeroNeverCame(options: RankZeroNeverCameOptions): CommunicationError {
  const { rank, waitedMs, detail, alike, cause } = options;
  const waited = `rank ${rank} waited ${(waitedMs / 1000).toFixed(1)} s${detail}`;
  return new CommunicationError(
    'MTL_TIMEOUT',
    `rank 0, which holds the store of the job, never came: ${waited}`,
    {
      remedy:
        `see what rank 0 says; ${alike} must be the same for all ranks; ` +
        'MTL_JOIN_TIMEOUT=SECONDS waits longer',
      details: { rank: 0, by: rank, waitedMs },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

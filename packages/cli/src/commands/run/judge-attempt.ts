import type { MtlError } from '@mtl/errors';
import type { HostReport } from './host-report.js';
import { howItEnded } from './how-it-ended.js';
import type { RankEnd } from './rank-process.js';
import type { Verdict } from './verdict.js';

export interface JudgedAttempt {
  /** Of all hosts. */
  readonly reports: readonly HostReport[];
  /** The host that said first that a process of it had failed. */
  readonly firstHost: number | undefined;
  /** Why the job failed, as its ranks told the store. */
  readonly reported: MtlError | undefined;
  /** How often the job was restarted before. */
  readonly attempt: number;
  readonly maxRestarts: number;
}

/** Exit status of a program that was given wrong input, which stays wrong. */
const wrongInput = 2;

/** Decides for all hosts whether the job has ended, starts again or has failed, and on whose account. */
export function judgeAttempt(judged: JudgedAttempt): Verdict {
  const { reports, firstHost = 0, attempt, maxRestarts } = judged;
  const failed = reports.flatMap(({ firstToFail }) => (firstToFail === undefined ? [] : [firstToFail]));
  if (failed.length === 0) return { next: 'end', message: '', exitCode: 1, details: {} };
  const ends = reports.flatMap((report) => report.ends);
  const first = reports[firstHost]?.firstToFail ?? failed[0];
  const end = blamed(ends, first, judged.reported);
  const isFinal = end.status === wrongInput || reports.some(({ wasSignalled }) => wasSignalled);
  return {
    next: isFinal || attempt === maxRestarts ? 'fail' : 'restart',
    message: messageOf(end, failed, judged.reported),
    exitCode: end.status === wrongInput ? 2 : 1,
    details: { rank: end.rank, status: end.status, signal: end.signal },
  };
}

/** A rank that was given wrong input; else the one that the others name; else the first one that failed. */
function blamed(
  ends: readonly RankEnd[],
  first: number | undefined,
  reported: MtlError | undefined,
): RankEnd {
  const named = ends.find(({ rank }) => rank === reported?.details.rank);
  if (named?.status === wrongInput) return named;
  return (
    ends.find(({ status }) => status === wrongInput) ?? named ?? ends.find(({ rank }) => rank === first)!
  );
}

function messageOf(end: RankEnd, failed: readonly number[], reported: MtlError | undefined): string {
  const names = reported?.details.rank === end.rank;
  // ended by us, or as if all were well: what the others saw says more
  const sawMore = names && (end.status === 0 || (!failed.includes(end.rank) && end.signal !== null));
  if (sawMore) return `rank ${end.rank} failed: ${reported.message}`;
  return howItEnded(end);
}

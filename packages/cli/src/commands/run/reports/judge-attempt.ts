import type { MtlError } from '@mtl/errors';
import type { RankExit } from '../launcher/rank-process.js';
import { blamesAnotherRank } from './blames-another-rank.js';
import { formatRankExit } from './format-rank-exit.js';
import type { HostReport } from './host-report.js';
import type { Verdict, WrongInput } from './verdict.js';
import { wrongInputStatus } from './wrong-input-status.js';

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

/**
 * Whether a training run ended with what every restart would compute again: from the same checkpoint and the
 * same samples the results are the same, bit by bit.
 */
function repeatsItself({ lastMessage }: RankExit): boolean {
  return /^error\[MTL_(NOT_FINITE|LOSS_SPIKE|NO_UPDATE)\]/.test(lastMessage);
}

/** Decides for all hosts whether the job has ended, starts again or has failed, and on whose account. */
export function judgeAttempt(judged: JudgedAttempt): Verdict {
  const { reports, firstHost = 0, attempt, maxRestarts } = judged;
  const failed = reports.flatMap(({ firstToFail }) => (firstToFail === undefined ? [] : [firstToFail]));
  if (failed.length === 0) return { next: 'end', message: '', exitCode: 1, details: {} };
  const ends = reports.flatMap((report) => report.ends);
  const first = reports[firstHost]?.firstToFail ?? failed[0];
  const end = blamed(ends, first, judged.reported);
  const isFinal =
    repeatsItself(end) || end.status === wrongInputStatus || reports.some(({ wasSignalled }) => wasSignalled);
  const isRefused = repeatsItself(end) && attempt < maxRestarts;
  const why = isRefused ? '; not restarted, since the same steps would end there again' : '';
  return {
    next: isFinal || attempt === maxRestarts ? 'fail' : 'restart',
    message: messageOf(end, judged.reported) + why,
    exitCode: end.status === wrongInputStatus ? 2 : 1,
    details: { rank: end.rank, status: end.status, signal: end.signal },
    ...(end.status === wrongInputStatus && end.error !== '' ? { input: inputOf(end, ends) } : {}),
  };
}

/** A rank that the launcher ended before it could say the same has not got further. */
function inputOf({ error }: RankExit, ends: readonly RankExit[]): WrongInput {
  const others = ends.filter((end) => end.error !== error && !end.wasSignalled);
  const same = ends.filter((end) => end.error === error).map(({ rank }) => rank);
  return { error, onlyRanks: others.length === 0 ? [] : same };
}

/**
 * A rank that was given wrong input; else one whose values were not finite; else the one that the others
 * name, and where none is named or it only saw others fail itself, one that failed on its own; else the
 * first.
 */
function blamed(
  ends: readonly RankExit[],
  first: number | undefined,
  reported: MtlError | undefined,
): RankExit {
  const ofRank = (rank: unknown): RankExit | undefined => ends.find((end) => end.rank === rank);
  const [named, atFirst] = [ofRank(reported?.details.rank), ofRank(first)];
  const candidates = [named, atFirst, ...ends.filter((end) => end.status !== 0 && !end.wasSignalled)];
  const known = candidates.filter((end) => end !== undefined);
  return (
    [named, ...ends].find((end) => end?.status === wrongInputStatus) ??
    [named, ...ends].find((end) => end !== undefined && repeatsItself(end) && !blamesAnotherRank(end)) ??
    known.find((end) => !blamesAnotherRank(end)) ??
    known[0]!
  );
}

function messageOf(end: RankExit, reported: MtlError | undefined): string {
  const names = reported?.details.rank === end.rank;
  // ended by us, or as if all were well: the reports of the others are more precise
  const sawMore = names && (end.status === 0 || (end.wasSignalled && end.signal !== null));
  return sawMore ? `rank ${end.rank} failed: ${reported.message}` : formatRankExit(end);
}

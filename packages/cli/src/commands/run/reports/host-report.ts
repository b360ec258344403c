import type { RankExit } from '../launcher/rank-process.js';

/** How an attempt of the job went on one host, when all its processes have ended. */
export interface HostReport {
  /** The rank that failed first on its own; undefined: none failed before it was told to end. */
  readonly firstToFail: number | undefined;
  readonly ends: readonly RankExit[];
  /** This launcher received a signal, so the job is to end. */
  readonly wasSignalled: boolean;
}

/** The most characters kept of the last error of a rank. */
const maximumMessageLength = 400;
/**
 * The most characters of the wrong input of all ranks of a host together, and those that each may have
 * whatever their number.
 */
const maximumErrorsLength = 100_000;
const leastErrorLength = 500;

/** Shortens a report so that it stays within a value of the store, on a host with very many ranks too. */
export function shortenReport(report: HostReport): HostReport {
  const maximumErrorLength = Math.max(leastErrorLength, maximumErrorsLength / report.ends.length);
  const ends = report.ends.map((end) => ({
    ...end,
    lastMessage: end.status === 0 ? '' : end.lastMessage.slice(0, maximumMessageLength),
    // whole, or not at all
    error: end.status === wrongInputStatus && end.error.length <= maximumErrorLength ? end.error : '',
  }));
  return { ...report, ends };
}

/** Exit status of a program that was given wrong input, which stays wrong. */
export const wrongInputStatus = 2;

/** Codes of @mtl/comm, and of a save that all ranks make together, that blame another rank. */
const blamesAnother =
  /^error\[MTL_(RANK_DIED|RANK_LEFT|HEARTBEAT|TIMEOUT|ABORTED|STORE_LOST|WATCHDOG|CHECKPOINT_PEER)\]/;
/**
 * The message of a wait that failed because another rank ended with an error; it has the code of that error.
 */
const tellsOfAnother = /, rank \d+ waited [\d.]+ s: rank \d+ failed: /;

/** Its last words are about another rank that failed. */
export function blamesAnotherRank({ lastMessage }: RankExit): boolean {
  return blamesAnother.test(lastMessage) || tellsOfAnother.test(lastMessage);
}

/** Formats a rank's status or signal, and its last words where it had any. */
export function formatRankExit({ rank, status, signal, lastMessage }: RankExit): string {
  const how = signal === null ? `exit code ${status}` : `signal ${signal}`;
  return `rank ${rank} ended with ${how}${lastMessage === '' ? '' : `: ${lastMessage}`}`;
}

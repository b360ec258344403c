import type { RankExit } from '../launcher/rank-process.js';

/** How an attempt of the job went on one host, when all its processes have ended. */
export interface HostReport {
  /** The rank that failed first on its own; undefined: none failed before it was told to end. */
  readonly firstToFail: number | undefined;
  readonly ends: readonly RankExit[];
  /** This launcher received a signal, so the job is to end. */
  readonly wasSignalled: boolean;
}

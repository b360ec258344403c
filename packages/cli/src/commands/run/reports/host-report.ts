import type { RankExit } from '../launcher/rank-process.js';

/** How an attempt of the job went on one host, when all its processes have ended. */
export interface HostReport {
  /** The rank that failed first, by itself; undefined: none did before it was told to end. */
  readonly firstToFail: number | undefined;
  readonly ends: readonly RankExit[];
  /** Somebody wants an end: a signal came to this launcher. */
  readonly wasSignalled: boolean;
}

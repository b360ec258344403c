/** The checked options of a job for `mtl run`. */
export interface LaunchOptions {
  readonly numProcessesPerNode: number;
  readonly numNodes: number;
  readonly nodeRank: number;
  readonly masterAddress: string;
  /** The port of host 0's store; 0 selects any free port (only on one host). */
  readonly masterPort: number;
  readonly maxRestarts: number;
  /** The time, in milliseconds, after which a rank without heartbeats counts as lost. */
  readonly heartbeatLimitMs: number;
  /** The maximum time, in milliseconds, that hosts and ranks wait for each other at the start. */
  readonly joinTimeoutMs: number;
  /** The time, in milliseconds, from SIGTERM to SIGKILL. Ranks can end properly in this time. */
  readonly gracePeriodMs: number;
  readonly secret: string;
  /** The unique name of the job, which restarts do not change. */
  readonly jobId: string;
  /** The start of the job in milliseconds since 1970, which restarts do not change. */
  readonly startedMs: number;
  /** The path of the program's script. */
  readonly script: string;
  readonly args: readonly string[];
}

/** The checked options of a job for `mtl run`. */
export interface LaunchOptions {
  readonly numProcessesPerNode: number;
  readonly numNodes: number;
  readonly nodeRank: number;
  readonly masterAddress: string;
  /** The port of host 0's store; 0 selects any free port (only on one host). */
  readonly masterPort: number;
  readonly maxRestarts: number;
  /** How long a rank may be without heartbeats, in milliseconds, before it counts as lost. */
  readonly heartbeatLimitMs: number;
  /** How long hosts and ranks wait for each other at the start, at most, in milliseconds. */
  readonly joinTimeoutMs: number;
  /** How long ranks have to end properly after SIGTERM, in milliseconds, before they get SIGKILL. */
  readonly gracePeriodMs: number;
  readonly secret: string;
  /** The job's unique name, which restarts do not change. */
  readonly jobId: string;
  /** When the job started, in milliseconds since 1970. Restarts do not change this value. */
  readonly startedMs: number;
  /** The path of the program's script. */
  readonly script: string;
  readonly args: readonly string[];
}

/** The job that `mtl run` starts, after its flags were checked. */
export interface LaunchOptions {
  readonly numProcessesPerNode: number;
  readonly numNodes: number;
  readonly nodeRank: number;
  readonly masterAddress: string;
  /** 0: any free one (on one host). */
  readonly masterPort: number;
  readonly maxRestarts: number;
  /** The time that a rank may be silent before it counts as lost. */
  readonly heartbeatLimitMs: number;
  /** The time that hosts and ranks wait for each other at the start. */
  readonly joinTimeoutMs: number;
  /** The time that ranks have to end after SIGTERM before SIGKILL. */
  readonly gracePeriodMs: number;
  readonly secret: string;
  /** The name of the job, the same for all its restarts and of no other job. */
  readonly jobId: string;
  /** The start of the job, milliseconds since 1970: the same for all its restarts. */
  readonly startedMs: number;
  /** The script of the program. */
  readonly script: string;
  readonly args: readonly string[];
}

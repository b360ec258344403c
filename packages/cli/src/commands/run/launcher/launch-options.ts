/** The job that `mtl run` starts, after its flags were checked. */
export interface LaunchOptions {
  readonly numProcessesPerNode: number;
  readonly numNodes: number;
  readonly nodeRank: number;
  readonly masterAddress: string;
  /** The port of host 0's store; 0 for any free port (only on one host). */
  readonly masterPort: number;
  readonly maxRestarts: number;
  /** Milliseconds that a rank may be silent before it counts as lost. */
  readonly heartbeatLimitMs: number;
  /** Milliseconds that hosts and ranks wait for each other at the start. */
  readonly joinTimeoutMs: number;
  /** Milliseconds between SIGTERM and SIGKILL, in which ranks can end. */
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

/** What started the processes of a job; `single`: nothing did, this one is alone. */
export type Launcher = 'mtl' | 'torchrun' | 'variables' | 'slurm' | 'openmpi' | 'pmi' | 'single';

/** Variables of a process: `process.env`, or a part of it. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** Where a process stands in its job, as its launcher describes it. */
export interface ProcessEnvironment {
  readonly launcher: Launcher;
  readonly rank: number;
  readonly worldSize: number;
  /** Among the processes on its host. */
  readonly localRank: number;
  readonly localWorldSize: number;
  /** Of the host; hosts are known by this number, never by their names. */
  readonly nodeRank: number;
  readonly numNodes: number;
  /**
   * Where rank 0 or the launcher of the first host can be reached. Loopback when all processes are on one
   * host.
   */
  readonly masterAddress: string;
  /** As the launcher gave it; under torchrun its agent listens there. */
  readonly masterPort: number;
  /**
   * Where the store of the job may be, in the order in which they are tried; others may sit on some of them.
   */
  readonly storePorts: readonly number[];
  /** Who runs the server of the store. */
  readonly storeHost: 'launcher' | 'rank 0';
  /** How often the launcher has started the job again after a failure. */
  readonly restartCount: number;
}

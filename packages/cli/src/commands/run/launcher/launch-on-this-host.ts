import { randomBytes, randomUUID } from 'node:crypto';
import { readJoinTimeout } from '@mtl/comm/internal';
import { Launcher } from './launcher.js';

export interface LaunchOnThisHostOptions {
  readonly numProcesses: number;
  /** See `resolveProgram`. */
  readonly script: string;
  readonly args: readonly string[];
}

/** Runs a program as several ranks on this host, to its end. @throws what `Launcher` throws */
export async function launchOnThisHost({
  numProcesses,
  script,
  args,
}: LaunchOnThisHostOptions): Promise<void> {
  await new Launcher({
    numProcessesPerNode: numProcesses,
    numNodes: 1,
    nodeRank: 0,
    masterAddress: '127.0.0.1',
    masterPort: 0,
    maxRestarts: 0,
    heartbeatLimitMs: 15_000,
    joinTimeoutMs: readJoinTimeout(process.env),
    gracePeriodMs: 10_000,
    secret: randomBytes(32).toString('hex'),
    jobId: randomUUID(),
    startedMs: Date.now(),
    script,
    args,
  }).run();
}

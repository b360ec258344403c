import { type JobEngineName, joinWorld, readProcessEnvironment, type Variables, type World } from '@mtl/comm';
import type { Device } from '@mtl/kernels';
import { openDeviceOfRank } from './open-device-of-rank.js';
import { type Job, readJob } from './read-job.js';

export interface JoinProcessesOptions {
  /** Where launchers say what they started: process.env. */
  readonly variables: Variables;
  /** --distributed-timeout-minutes */
  readonly timeoutMinutes: number | undefined;
  /** --device: opened before the processes join, since it decides how they communicate. Default: cpu. */
  readonly device?: Device | undefined;
  /** --allow-tf32 */
  readonly allowTf32?: boolean | undefined;
  /** --distributed-backend. Default: what suits hosts and GPUs. */
  readonly backend?: JobEngineName | undefined;
  /** Gets, on the first rank, how tensors of GPUs travel and why. */
  readonly onMessage?: (text: string) => void;
}

/** This process among those of its job. */
export interface JoinedProcesses {
  /** Undefined for a process alone. */
  readonly world: World | undefined;
  /** This process among those on its host. */
  readonly local: { readonly rank: number; readonly size: number };
  /** The job, also when its launcher has started it again after a failure. */
  readonly job: Job;
  /** When `mtl run` started the job, the same at every restart; undefined under other launchers. */
  readonly startedAt: Date | undefined;
}

/** Joins the job that the environment describes. @throws what `joinWorld` and `openDevice` throw */
export async function joinProcesses(options: JoinProcessesOptions): Promise<JoinedProcesses> {
  const { variables, timeoutMinutes, device = 'cpu', allowTf32, backend, onMessage = () => {} } = options;
  const environment = readProcessEnvironment(variables);
  const { worldSize, localRank, localWorldSize } = environment;
  const started = variables.MTL_JOB_STARTED_MS;
  const timeout = timeoutMinutes === undefined ? {} : { timeoutMs: timeoutMinutes * 60_000 };
  openDeviceOfRank(device, { localRank, allowTf32 });
  const engine = backend === undefined ? {} : { engine: backend };
  const say = environment.rank === 0 ? { onMessage } : {};
  const join = { variables, environment, device, ...engine, ...timeout, ...say };
  return {
    world: worldSize === 1 ? undefined : await joinWorld(join),
    local: { rank: localRank, size: localWorldSize },
    job: readJob(variables, environment),
    startedAt: started === undefined ? undefined : new Date(Number(started)),
  };
}

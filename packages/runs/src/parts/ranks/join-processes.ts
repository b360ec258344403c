import { type JobEngineName, joinWorld, type World } from '@mtl/comm';
import { type ProcessEnvironment, readProcessEnvironment, type Variables } from '@mtl/comm/internal';
import { type Device, isDeviceAvailable, openDevice } from '@mtl/kernels';
import { probeCuda } from '@mtl/kernels/internal';

export interface JoinProcessesOptions {
  /** The environment variables of launchers: process.env. */
  readonly variables: Variables;
  /** --distributed-timeout-minutes */
  readonly timeoutMinutes: number | undefined;
  /** --device: opened before the processes join, since it determines how they communicate. Default: cpu. */
  readonly device?: Device | undefined;
  /** --allow-tf32 */
  readonly allowTf32?: boolean | undefined;
  /** --distributed-backend. Default: the backend that suits hosts and GPUs. */
  readonly backend?: JobEngineName | undefined;
  /** Called on the first rank with the transport of GPU tensors and its reason. */
  readonly onMessage?: (text: string) => void;
}

/** This process among the processes of its job. */
export interface JoinedProcesses {
  /** Undefined for a single process. */
  readonly world: World | undefined;
  /** This process among the processes on its host. */
  readonly local: { readonly rank: number; readonly size: number };
  /** The job; the same after its launcher has restarted it. */
  readonly job: Job;
  /** When `mtl run` started the job, the same at every restart; undefined under other launchers. */
  readonly startedAt: Date | undefined;
}

/** Joins the job that the environment describes. @throws errors of `joinWorld` and `openDevice` */
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

/** A job as its launcher knows it. */
export interface Job {
  /** Name of the job at every restart; undefined where the launcher has no name for it. */
  readonly id: string | undefined;
  /** The number of times that the launcher has started it again after a failure. */
  readonly restartCount: number;
}

/**
 * Returns the job that this process belongs to: `mtl run` names it, Slurm numbers jobs and steps, and
 * torchrun's agent, which starts its processes again, has a run id, a port and a process id.
 */
export function readJob(
  variables: Variables,
  {
    launcher,
    restartCount,
    masterPort,
  }: Pick<ProcessEnvironment, 'launcher' | 'restartCount' | 'masterPort'>,
): Job {
  const {
    MTL_JOB_ID: id,
    SLURM_CLUSTER_NAME: cluster = '',
    SLURM_JOB_ID: job,
    SLURM_STEP_ID: step,
  } = variables;
  if (id !== undefined && id !== '') return { id, restartCount };
  if (launcher === 'torchrun') {
    const run = variables.TORCHELASTIC_RUN_ID ?? '';
    return { id: `torchrun ${run} ${masterPort} ${process.ppid}`, restartCount };
  }
  if (job !== undefined) return { id: `slurm ${cluster} ${job}.${step ?? ''}`, restartCount };
  return { id: undefined, restartCount };
}

interface DeviceOfRankOptions {
  readonly localRank: number;
  /** See `openCuda`. */
  readonly allowTf32?: boolean | undefined;
}

/**
 * Opens the device for a process. On CUDA, the process takes the visible GPU with its number on the host,
 * modulo the number of GPUs. A device that is already open stays open.
 *
 * @throws errors of `openDevice`
 */
export function openDeviceOfRank(device: Device, { localRank, allowTf32 }: DeviceOfRankOptions): void {
  if (device !== 'cuda' || isDeviceAvailable(device)) return;
  // without a GPU, device 0 is requested, and the error names the missing parts
  const numDevices = Math.max(1, probeCuda().devices.length);
  openDevice(device, {
    deviceIndex: localRank % numDevices,
    ...(allowTf32 === undefined ? {} : { allowTf32 }),
  });
}

import { type JobEngineName, joinWorld, type World } from '@mtl/comm';
import { type ProcessEnvironment, readProcessEnvironment, type Variables } from '@mtl/comm/launcher';
import { type Device, isDeviceAvailable, openDevice } from '@mtl/kernels';
import { probeCuda } from '@mtl/kernels/internal';

export interface JoinProcessesOptions {
  /** The environment variables that launchers set, usually `process.env`. */
  readonly variables: Variables;
  /** The value of --distributed-timeout-minutes. */
  readonly timeoutMinutes: number | undefined;
  /**
   * The value of --device. The device is opened before the processes join, because it determines their
   * communication. Default: cpu.
   */
  readonly device?: Device | undefined;
  /** The value of --allow-tf32. */
  readonly allowTf32?: boolean | undefined;
  /** The value of --distributed-backend. Default: a backend that suits the hosts and GPUs. */
  readonly backend?: JobEngineName | undefined;
  /** On the first rank, receives a message that names the transport of GPU tensors and the reason for it. */
  readonly onMessage?: (text: string) => void;
}

/** This process within its job. */
export interface JoinedProcesses {
  /** Undefined for a single process. */
  readonly world: World | undefined;
  /** The rank of this process on its host, and the number of processes on the host. */
  readonly local: { readonly rank: number; readonly size: number };
  /** The job of this process. It stays the same when the launcher restarts the job. */
  readonly job: Job;
  /** The time at which `mtl run` started the job, unchanged by restarts; undefined under other launchers. */
  readonly startedAt: Date | undefined;
}

/**
 * Joins the job that the environment describes.
 *
 * @throws the errors of `joinWorld` and `openDevice`
 */
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

/** A job of a launcher. */
export interface Job {
  /** The launcher's name for the job, unchanged by restarts; undefined if the launcher gives no name. */
  readonly id: string | undefined;
  /** The number of times that the launcher has restarted the job after a failure. */
  readonly restartCount: number;
}

/**
 * Returns this process's job. The name comes from `mtl run`, or from Slurm's job and step numbers. Under
 * torchrun, the name consists of the run id, the port and the process id of torchrun's agent, which stay the
 * same when torchrun restarts the processes.
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
  /** Allows TF32 matmuls, see `openCuda`. */
  readonly allowTf32?: boolean | undefined;
}

/**
 * Opens the device for a process. On CUDA, the index of the GPU is the process's rank on the host modulo the
 * number of visible GPUs. A device that is already open stays open.
 *
 * @throws the errors of `openDevice`
 */
export function openDeviceOfRank(device: Device, { localRank, allowTf32 }: DeviceOfRankOptions): void {
  if (device !== 'cuda' || isDeviceAvailable(device)) return;
  // without a GPU, device 0 is requested, so that opening fails with an error that names the missing
  // component
  const numDevices = Math.max(1, probeCuda().devices.length);
  openDevice(device, {
    deviceIndex: localRank % numDevices,
    ...(allowTf32 === undefined ? {} : { allowTf32 }),
  });
}

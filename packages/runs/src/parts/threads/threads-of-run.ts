import type { Checkpoint } from '@mtl/checkpoint';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { meshOfRun } from '@mtl/configuration/strategies';
import { hostInformation, setNumThreads } from '@mtl/kernels';
import { coresOfProcess, measureFreeCores } from './free-cores.js';

interface ThreadsOfTrainingOptions {
  readonly configuration: Pick<PretrainingConfiguration, 'parallel' | 'training'>;
  /** The model FLOPs of a sample, for its forward and backward pass. */
  readonly flopsPerSample: number;
  /** The number of processes of the training run on this host. */
  readonly localSize: number;
  /** The checkpoint from which the run resumes; undefined for a new run. */
  readonly resumed: Checkpoint | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * Chooses the number of threads of this rank, sets it in the kernels, and prints it with the reason. If
 * several processes share a host, each uses the same number of cores. In this case, free cores are not
 * measured, because the run's own processes would disturb the measurement.
 *
 * @throws ConfigurationError MTL_FREE_CORES
 */
export async function threadsOfTraining(options: ThreadsOfTrainingOptions): Promise<ThreadChoice> {
  const { configuration, flopsPerSample, localSize, resumed, onMessage } = options;
  const { parallel } = configuration;
  const { worldSize, device } = parallel;
  const cores = coresOfRank(localSize);
  const isOnHost = device === 'cpu';
  const choice = await chooseThreads({
    given: parallel.threads,
    recorded: resumed?.manifest.worldSize === worldSize ? recordedThreads(resumed) : undefined,
    flopsPerMicroBatch: flopsPerMicroBatch(configuration, flopsPerSample),
    cores,
    mostThreads: hostInformation().mostThreads,
    measureFreeCores: async () =>
      isOnHost && worldSize === 1 ? await measureFreeCores({ variables: process.env, cores }) : undefined,
  });
  setThreadsOfRank(choice.count, { localSize });
  onMessage(`threads ${choice.count}: ${choice.reason}`);
  return choice;
}

/**
 * Returns the model FLOPs of a micro-batch that are computed on a rank's CPU threads. With a GPU, the host's
 * threads do not compute the matmuls, so the FLOPs say nothing about their work. The result is then infinite,
 * so that the run uses one thread per core.
 */
export function flopsPerMicroBatch(
  { parallel, training }: ThreadsOfTrainingOptions['configuration'],
  flopsPerSample: number,
): number {
  if (parallel.device !== 'cpu') return Number.POSITIVE_INFINITY;
  const numShards = meshOfRun(parallel).numShards('dense');
  return (flopsPerSample * training.microBatchSize) / numShards;
}

/**
 * Returns the number of threads in the run that wrote a checkpoint; undefined for older checkpoints, which do
 * not record it.
 */
function recordedThreads({ state }: Checkpoint): number | undefined {
  const { threads } = (state.configuration ?? {}) as { readonly threads?: unknown };
  return Number.isSafeInteger(threads) && (threads as number) > 0 ? (threads as number) : undefined;
}

/** The number of model FLOPs per micro-batch that justifies a further thread (see docs/decisions/runs.md). */
export const flopsPerThread = 5e9;

export interface ChooseThreadsOptions {
  /** The value of --threads. */
  readonly given: number | undefined;
  /** The number of threads recorded in the checkpoint from which the run resumes. */
  readonly recorded: number | undefined;
  /** The model FLOPs of a micro-batch on this rank, forward and backward pass (see `modelFlops`). */
  readonly flopsPerMicroBatch: number;
  /** The number of cores for this process: its share of the host's cores. */
  readonly cores: number;
  /** The most threads that the kernels have: 1 without shared memory. By default there is no limit. */
  readonly mostThreads?: number;
  /**
   * Measures the number of cores that are not used by other processes; undefined if this is impossible.
   * Called only if the result matters.
   */
  readonly measureFreeCores: () => Promise<number | undefined>;
}

/** The number of threads that a process's kernels use, and the reason for this number. */
export interface ThreadChoice {
  readonly count: number;
  /** The reason, as the end of a sentence that begins with `threads 1:`. */
  readonly reason: string;
}

/**
 * Chooses the number of threads of a training run before its first step. The number stays the same until the
 * end, because results are repeatable only with the same number of threads. The number is the value of the
 * flag, or else the number in the checkpoint, or else one thread per `flopsPerThread` of a micro-batch, up to
 * the number of free cores.
 */
export async function chooseThreads(options: ChooseThreadsOptions): Promise<ThreadChoice> {
  const { given, recorded, flopsPerMicroBatch, cores, measureFreeCores } = options;
  const { mostThreads = Number.POSITIVE_INFINITY } = options;
  if (given !== undefined) return { count: given, reason: 'as --threads says' };
  if (recorded !== undefined && recorded <= Math.min(cores, mostThreads)) {
    return { count: recorded, reason: 'as the checkpoint was trained with, so that results repeat' };
  }
  const fewer =
    recorded === undefined ? '' : `; the checkpoint was trained with ${recorded}, results differ by rounding`;
  const worthwhile = Math.max(1, Math.floor(flopsPerMicroBatch / flopsPerThread));
  if (mostThreads === 1) return { count: 1, reason: `the kernels have no shared memory${fewer}` };
  if (cores === 1) return { count: 1, reason: `one core for this process${fewer}` };
  if (worthwhile === 1) {
    const size = `${flopsPerMicroBatch.toExponential(1)} FLOPs a micro-batch`;
    return { count: 1, reason: `more would slow down a model of ${size}${fewer}` };
  }
  const free = await measureFreeCores();
  if (free !== undefined && free < cores - toleratedLoad) {
    // a core counts as free if other processes use at most a fifth of it
    const usable = Math.max(1, Math.floor(free + toleratedLoad));
    const count = Math.min(worthwhile, usable);
    return { count, reason: `${free.toFixed(1)} of ${cores} cores are free${fewer}` };
  }
  if (worthwhile < cores) {
    return {
      count: worthwhile,
      reason: `more than ${worthwhile} would slow down a model of this size${fewer}`,
    };
  }
  return { count: cores, reason: `one for each core of this process${fewer}` };
}

/** The fraction of a core that other processes may use if the core is to count as free. */
const toleratedLoad = 0.2;

/** Returns the number of cores for each process if `localSize` processes share a host. */
const coresOfRank = (localSize: number): number => Math.max(1, Math.floor(coresOfProcess() / localSize));

/**
 * Sets the number of threads for a process's kernels: the given number or, by default, one thread per core in
 * the process's share of the host.
 */
export function setThreadsOfRank(
  threads: number | undefined,
  { localSize }: { readonly localSize: number },
): ThreadChoice {
  const count = threads ?? Math.min(coresOfRank(localSize), hostInformation().mostThreads);
  setNumThreads(count, {
    // if a host has several processes, threads are not pinned, because all processes would pin their threads
    // to the same cores
    pin: localSize === 1,
  });
  const reason = threads === undefined ? 'one for each core of this process' : 'as --threads says';
  return { count, reason };
}

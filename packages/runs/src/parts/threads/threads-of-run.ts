import type { Checkpoint } from '@mtl/checkpoint';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { meshOfRun } from '@mtl/configuration/internal';
import { setNumThreads } from '@mtl/kernels';
import { coresOfProcess, measureFreeCores } from './free-cores.js';

interface ThreadsOfTrainingOptions {
  readonly configuration: Pick<PretrainingConfiguration, 'parallel' | 'training'>;
  /** Model FLOPs of one sample, forward and backward. */
  readonly flopsPerSample: number;
  /** Processes of the training run on this host. */
  readonly localSize: number;
  /** The checkpoint that training resumes from. */
  readonly resumed: Checkpoint | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * Chooses the threads of this rank, sets them in its kernels, and prints them with the reason. If several
 * processes share a host, each takes its share of the cores without a measurement, which would only measure
 * the other processes.
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
    measureFreeCores: async () =>
      isOnHost && worldSize === 1 ? await measureFreeCores({ variables: process.env, cores }) : undefined,
  });
  setThreadsOfRank(choice.count, { localSize });
  onMessage(`threads ${choice.count}: ${choice.reason}`);
  return choice;
}

/**
 * Returns the model FLOPs of a micro-batch that a rank's threads compute. Kernels of a GPU do not use host
 * threads, which do the other work of a step; such a run uses one thread per core.
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
 * Returns the threads of the run that wrote a checkpoint; undefined for older checkpoints, which do not
 * record them.
 */
function recordedThreads({ state }: Checkpoint): number | undefined {
  const { threads } = (state.configuration ?? {}) as { readonly threads?: unknown };
  return Number.isSafeInteger(threads) && (threads as number) > 0 ? (threads as number) : undefined;
}

/** Model FLOPs of a micro-batch that justify a further thread (docs/decisions/runs.md). */
export const flopsPerThread = 5e9;

export interface ChooseThreadsOptions {
  /** --threads. */
  readonly given: number | undefined;
  /** Threads of the training run that wrote the resumed checkpoint. */
  readonly recorded: number | undefined;
  /** Model FLOPs of a micro-batch on this rank, forward and backward (`modelFlops`). */
  readonly flopsPerMicroBatch: number;
  /** Cores that this process may use: its share of the host's. */
  readonly cores: number;
  /**
   * Measures how many of the cores other processes leave free; called only if the result matters. Returns
   * undefined if it cannot be measured.
   */
  readonly measureFreeCores: () => Promise<number | undefined>;
}

/** The number of threads that the kernels of a process get, and why. */
export interface ThreadChoice {
  readonly count: number;
  /** Completes the sentence `threads 1: ...`. */
  readonly reason: string;
}

/**
 * Chooses the threads of a training run before its first step. They stay the same to its end, since results
 * are repeatable only with one number of threads. The choice is the flag; else the number in the checkpoint;
 * else one thread per `flopsPerThread` of a micro-batch, at most the number of free cores.
 */
export async function chooseThreads(options: ChooseThreadsOptions): Promise<ThreadChoice> {
  const { given, recorded, flopsPerMicroBatch, cores, measureFreeCores } = options;
  if (given !== undefined) return { count: given, reason: 'as --threads says' };
  if (recorded !== undefined && recorded <= cores) {
    return { count: recorded, reason: 'as the checkpoint was trained with, so that results repeat' };
  }
  const fewer =
    recorded === undefined ? '' : `; the checkpoint was trained with ${recorded}, results differ by rounding`;
  const worthwhile = Math.max(1, Math.floor(flopsPerMicroBatch / flopsPerThread));
  if (cores === 1) return { count: 1, reason: `one core for this process${fewer}` };
  if (worthwhile === 1) {
    const size = `${flopsPerMicroBatch.toExponential(1)} FLOPs a micro-batch`;
    return { count: 1, reason: `more would slow down a model of ${size}${fewer}` };
  }
  const free = await measureFreeCores();
  if (free !== undefined && free < cores - toleratedLoad) {
    // a core counts as free for a thread if others use at most a fifth of it
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

/** Share of a core that others may use while it counts as free. */
const toleratedLoad = 0.2;

/** Returns a process's share of the cores of its host. */
const coresOfRank = (localSize: number): number => Math.max(1, Math.floor(coresOfProcess() / localSize));

/** Sets the threads of a process's kernels: the requested number, or its share of the host's cores. */
export function setThreadsOfRank(
  threads: number | undefined,
  { localSize }: { readonly localSize: number },
): ThreadChoice {
  const count = threads ?? coresOfRank(localSize);
  setNumThreads(count, {
    // several processes of a host would all pin their threads to the same cores
    pin: localSize === 1,
  });
  const reason = threads === undefined ? 'one for each core of this process' : 'as --threads says';
  return { count, reason };
}

import type { Checkpoint } from '@mtl/checkpoint';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { chooseThreads, type ThreadChoice } from './choose-threads.js';
import { measureFreeCores } from './measure-free-cores.js';
import { coresOfRank, setThreadsOfRank } from './set-threads-of-rank.js';

export interface ThreadsOfTrainingOptions {
  readonly configuration: Pick<PretrainingConfiguration, 'parallel' | 'training'>;
  /** Model FLOPs of one sample, forward and backward. */
  readonly flopsPerSample: number;
  /** Processes of the training run on this host. */
  readonly localSize: number;
  /** What training resumes from. */
  readonly resumed: Checkpoint | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * Chooses the threads of this rank, gives them to its kernels, and prints them with the reason. Where several
 * processes share a host each keeps its share of the cores, whatever else runs: they would measure each
 * other.
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
 * Model FLOPs that a rank's threads compute of a micro-batch. Kernels of a GPU are not the host's work: its
 * threads do the rest of a step, as many as there are cores.
 */
export function flopsPerMicroBatch(
  { parallel, training }: ThreadsOfTrainingOptions['configuration'],
  flopsPerSample: number,
): number {
  const { tensorModelParallelSize, pipelineModelParallelSize, device } = parallel;
  if (device !== 'cpu') return Number.POSITIVE_INFINITY;
  const shares = tensorModelParallelSize * pipelineModelParallelSize;
  return (flopsPerSample * training.microBatchSize) / shares;
}

/** The threads of the run that wrote a checkpoint; those of before this was recorded do not tell. */
function recordedThreads({ state }: Checkpoint): number | undefined {
  const { threads } = (state.configuration ?? {}) as { readonly threads?: unknown };
  return Number.isSafeInteger(threads) && (threads as number) > 0 ? (threads as number) : undefined;
}

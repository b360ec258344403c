import type { World } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { scheduleOfStep } from '@mtl/configuration/internal';
import type { TransformerConfiguration } from '@mtl/models';
import type { ConsoleStream, TrainerExtension } from '@mtl/trainer';
import { refuseAfterStopSignal } from '@mtl/trainer/internal';
import type { OpenedConversations } from '../parts/conversations/open-conversations.js';
import { checkSaveForHuggingFace } from '../parts/models/hugging-face-targets.js';
import type { HuggingFaceModel } from '../parts/models/model-recipe.js';
import { openHuggingFace } from '../parts/models/training-model.js';
import { type Job, openDeviceOfRank } from '../parts/ranks/join-processes.js';
import { TrainingProcesses } from '../parts/ranks/training-processes.js';
import { setThreadsOfRank } from '../parts/threads/threads-of-run.js';
import { SaveDirectory } from '../save-directory.js';
import type { RankWatchTimes } from './loop-extensions.js';
import { type OpenComparison, planningFor, type RunPlanning } from './run-planning.js';

export interface OpenTrainingOptions {
  readonly configuration: PretrainingConfiguration;
  /** The directory in which the bundled corpus is prepared. */
  readonly corpusDirectory: string;
  /** Progress and messages, which rank 0 writes. Default: standard output. */
  readonly stream?: ConsoleStream;
  /** The processes of the training run, this one among them. Default: this process alone. */
  readonly world?: World | undefined;
  /** True where `close` closes the world, and an error of a step aborts it. Default: its owner does. */
  readonly closesWorld?: boolean;
  /** This process among those on its host. Default: alone there. */
  readonly local?: { readonly rank: number; readonly size: number };
  /**
   * The job of the run. One that its launcher has restarted continues with what it has saved into --save.
   * Default: a job of its own.
   */
  readonly job?: Job;
  /** The command that started the run, for remedies that print it with other flags. */
  readonly commandLine?: string;
  /** Conversations that `openConversations` read, where the configuration has any. */
  readonly conversations?: OpenedConversations | undefined;
  /** Extensions of the training loop next to the run's own, the same on all ranks. */
  readonly extensions?: readonly TrainerExtension[] | undefined;
  /**
   * Estimates the run: `planning` of @mtl/planning. Default: none, and flags that ask it are refused.
   */
  readonly planning?: RunPlanning | undefined;
  /** The times at which ranks are compared to find slow ones: more often in tests. */
  readonly rankWatchTimes?: RankWatchTimes | undefined;
}

/** A training run whose processes are there, each with its place, its device and its threads. */
export interface OpenedRun extends OpenTrainingOptions {
  readonly stream: ConsoleStream;
  readonly local: { readonly rank: number; readonly size: number };
  readonly job: Job;
  /** The mesh, this process's place in it, and its groups. */
  readonly processes: TrainingProcesses;
  /** The directory of --save, owned where it was there. */
  readonly saveDirectory: SaveDirectory;
  /** Opens the comparison of --compare-with-plan, on rank 0. */
  readonly openComparison: OpenComparison | undefined;
  /** The model that --load-hf names. */
  readonly huggingFace: HuggingFaceModel<TransformerConfiguration> | undefined;
  /** Writes a line, on rank 0. */
  readonly onMessage: (text: string) => void;
}

/**
 * Opens a run: device and threads of this process, the mesh with its groups, the directory that it saves
 * into. All ranks call it. The caller releases `saveDirectory`, which a `Training` does when it is closed.
 *
 * @throws those of `openDevice`, `SaveDirectory.ownExisting` and of --load-hf; ConfigurationError
 *   MTL_HUGGING_FACE_*; TrainingError MTL_STOP_SIGNAL where a signal has ended a run in this process
 */
export async function openRun(options: OpenTrainingOptions): Promise<OpenedRun> {
  refuseAfterStopSignal();
  const { configuration, world, stream = process.stdout, job = aloneJob } = options;
  const local = options.local ?? { rank: 0, size: 1 };
  const { training, parallel, checkpoint } = configuration;
  checkSaveForHuggingFace(checkpoint, parallel);
  openDeviceOfRank(parallel.device, { localRank: local.rank, allowTf32: parallel.allowTf32 });
  const { placement } = scheduleOfStep(parallel, training.numMicroBatches);
  const processes = new TrainingProcesses({ world, parallel, ends: [placement[0]!, placement.at(-1)!] });
  const onMessage = (text: string): void => {
    if (processes.isFirst) stream.write(`${text}\n`);
  };
  const saveDirectory = new SaveDirectory({ checkpoint, job, processes, onMessage });
  try {
    await saveDirectory.ownExisting();
    setThreadsOfRank(parallel.threads, { localSize: local.size });
    const isCompared = configuration.logging.comparesWithPlan && processes.isFirst;
    const openComparison = isCompared
      ? await planningFor('--compare-with-plan', options.planning).planToCompare(configuration, process.env)
      : undefined;
    const huggingFace = await openHuggingFace(configuration);
    return {
      ...options,
      stream,
      local,
      job,
      processes,
      saveDirectory,
      openComparison,
      huggingFace,
      onMessage,
    };
  } catch (error) {
    await saveDirectory.release();
    throw error;
  }
}

/** The job of a process that no launcher restarts. */
const aloneJob: Job = { id: undefined, restartCount: 0 };

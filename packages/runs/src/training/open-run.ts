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
  /** The processes of the training run, including this one. Default: this process only. */
  readonly world?: World | undefined;
  /** True if `close` closes the world, and an error of a step aborts it. Default: the world's owner does. */
  readonly closesWorld?: boolean;
  /** This process among the processes on its host. Default: the only one. */
  readonly local?: { readonly rank: number; readonly size: number };
  /**
   * The job of the run. If its launcher has restarted it, it continues from its last checkpoint in --save.
   * Default: a separate job.
   */
  readonly job?: Job;
  /** The command that started the run; remedies print it with other flags. */
  readonly commandLine?: string;
  /** Conversations from `openConversations`, if the configuration has any. */
  readonly conversations?: OpenedConversations | undefined;
  /** Extensions of the training loop in addition to the run's own; the same on all ranks. */
  readonly extensions?: readonly TrainerExtension[] | undefined;
  /**
   * The planner of the run: `planning` of @mtl/planning. Default: none, and flags that need it are refused.
   */
  readonly planning?: RunPlanning | undefined;
  /** The intervals of comparisons that find slow ranks; tests compare more often. */
  readonly rankWatchTimes?: RankWatchTimes | undefined;
}

/** A training run whose processes have joined, each with its mesh coordinates, its device and its threads. */
export interface OpenedRun extends OpenTrainingOptions {
  readonly stream: ConsoleStream;
  readonly local: { readonly rank: number; readonly size: number };
  readonly job: Job;
  /** The mesh, the coordinates of this process, and its groups. */
  readonly processes: TrainingProcesses;
  /** The directory of --save; owned if it exists. */
  readonly saveDirectory: SaveDirectory;
  /** Opens the comparison of --compare-with-plan, on rank 0. */
  readonly openComparison: OpenComparison | undefined;
  /** The model of --load-hf. */
  readonly huggingFace: HuggingFaceModel<TransformerConfiguration> | undefined;
  /** Writes a line, on rank 0. */
  readonly onMessage: (text: string) => void;
}

/**
 * Opens a run: device and threads of this process, the mesh with its groups, the directory that it saves to.
 * All ranks call it. The caller releases `saveDirectory`; closing a `Training` also releases it.
 *
 * @throws errors of `openDevice`, `SaveDirectory.ownExisting` and of --load-hf; ConfigurationError
 *   MTL_HUGGING_FACE_*; TrainingError MTL_STOP_SIGNAL if a signal has ended a run in this process
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

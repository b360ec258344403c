import type { World } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { scheduleOfStep } from '@mtl/configuration/strategies';
import type { TransformerConfiguration } from '@mtl/models';
import type { ConsoleStream, TrainerExtension } from '@mtl/trainer';
import { refuseAfterStopSignal } from '@mtl/trainer/stop-signals';
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
  /** The stream for rank 0's progress and messages. Default: `process.stdout`. */
  readonly stream?: ConsoleStream;
  /** The world of the training run's processes, including this process. Default: only this process. */
  readonly world?: World | undefined;
  /**
   * True if `close` closes the world, and an error in a step aborts it. Default: false, and the caller closes
   * the world.
   */
  readonly closesWorld?: boolean;
  /**
   * The rank of this process on its host, and the number of processes on the host. Default: this process is
   * alone.
   */
  readonly local?: { readonly rank: number; readonly size: number };
  /**
   * The job to which the run belongs. If the launcher has restarted the job, the run continues from its last
   * checkpoint in --save. Default: a job that is not restarted.
   */
  readonly job?: Job;
  /** The command that started the run. Remedies in errors print it with changed flags. */
  readonly commandLine?: string;
  /** The conversations that `openConversations` returns, if the run is trained on conversations. */
  readonly conversations?: OpenedConversations | undefined;
  /** Further extensions of the training loop, which must be the same on all ranks. */
  readonly extensions?: readonly TrainerExtension[] | undefined;
  /**
   * The planner, which is `planning` in @mtl/planning. Default: none, and flags that need a planner are
   * refused.
   */
  readonly planning?: RunPlanning | undefined;
  /** The minimum intervals for detecting and reporting slow ranks. Tests use shorter intervals. */
  readonly rankWatchTimes?: RankWatchTimes | undefined;
}

/** A training run whose processes have joined. This process's device and threads are already set up. */
export interface OpenedRun extends OpenTrainingOptions {
  readonly stream: ConsoleStream;
  readonly local: { readonly rank: number; readonly size: number };
  readonly job: Job;
  /** The mesh, the coordinates of this process, and its groups. */
  readonly processes: TrainingProcesses;
  /** The directory of --save. If it exists, this run already owns it. */
  readonly saveDirectory: SaveDirectory;
  /**
   * Opens the comparison of steps with the plan (--compare-with-plan); undefined except on rank 0 with this
   * flag.
   */
  readonly openComparison: OpenComparison | undefined;
  /** The opened model directory of --load-hf. */
  readonly huggingFace: HuggingFaceModel<TransformerConfiguration> | undefined;
  /** Prints a line; only rank 0 does so. */
  readonly onMessage: (text: string) => void;
}

/**
 * Opens a run: the device and the threads of this process, the mesh with its groups, and the directory of
 * --save. All ranks must call this function. The caller must release `saveDirectory`, or close a `Training`
 * made from the run, which releases it.
 *
 * @throws the errors of `openDevice`, `SaveDirectory.ownExisting` and --load-hf; ConfigurationError
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

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Checkpoint, listCheckpoints, OwnedDirectory, runOfCheckpoint } from '@mtl/checkpoint';
import { prepareSaveDirectory } from '@mtl/checkpoint/internal';
import type { Flags } from '@mtl/configuration';
import { changedError, MtlError } from '@mtl/errors';
import type { Job } from './parts/ranks/join-processes.js';
import type { TrainingProcesses } from './parts/ranks/training-processes.js';
import { isSamePlace, refuseCheckpoints } from './saved/checkpoints/checkpoint-places.js';

export interface SaveDirectoryOptions {
  readonly checkpoint: RunPlaces;
  readonly job: Job;
  readonly processes: TrainingProcesses;
  readonly onMessage: (text: string) => void;
}

/**
 * The directory of --save. This run owns it from start to end, so that no other run saves there. All ranks
 * must call the methods in the same order. Rank 0 does the work.
 */
export class SaveDirectory {
  readonly #options: SaveDirectoryOptions;
  #owned: OwnedDirectory | undefined;

  constructor(options: SaveDirectoryOptions) {
    this.#options = options;
  }

  /** The owned directory, on rank 0. */
  get owned(): OwnedDirectory | undefined {
    return this.#owned;
  }

  /**
   * Takes ownership of the directory if it exists. A run calls this method before it opens data or reads a
   * checkpoint from the directory. From then on, no other run can write there.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED if another run saves there; MTL_CHECKPOINT_EXISTS if the
   *   directory contains checkpoints of runs that this run does not continue
   */
  async ownExisting(): Promise<void> {
    const { checkpoint, job } = this.#options;
    const { save } = checkpoint;
    await this.#onFirst(async () => {
      if (save === undefined || !existsSync(save)) return;
      await this.#own(save);
      await refuseOtherRuns(checkpoint, job);
    });
  }

  /**
   * Creates the directory if necessary, and takes ownership of it.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED, _DENIED, _IO
   */
  async own(): Promise<void> {
    const { save } = this.#options.checkpoint;
    await this.#onFirst(async () => {
      if (save !== undefined && this.#owned === undefined) await this.#own(save);
    });
  }

  /**
   * Checks before the first step that a training run can save, and that it does not overwrite another run's
   * checkpoints.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED; MTL_CHECKPOINT_EXISTS if --save contains checkpoints of
   *   runs that this run does not continue; MTL_CHECKPOINT_DENIED, _IO or _DISK_FULL if nothing can be
   *   saved there
   */
  async prepare({
    numBytes,
  }: {
    /** The size of a checkpoint in bytes. */
    readonly numBytes: number;
  }): Promise<void> {
    const { checkpoint, job } = this.#options;
    const { save } = checkpoint;
    if (save === undefined) return;
    await this.#onFirst(async () => {
      await prepareSaveDirectory({ directory: save, numBytes });
      if (this.#owned === undefined) await this.#own(save);
      await refuseOtherRuns(checkpoint, job);
    });
  }

  async release(): Promise<void> {
    await this.#owned?.release();
    this.#owned = undefined;
  }

  async #own(directory: string): Promise<void> {
    const { job, onMessage } = this.#options;
    this.#owned = await OwnedDirectory.own({
      directory,
      job: job.id,
      restartCount: job.restartCount,
      onNotice: (notice) => onMessage(`  note: ${notice}`),
    });
  }

  async #onFirst(task: () => Promise<void>): Promise<void> {
    const { processes } = this.#options;
    await processes.together(async () => {
      if (processes.isFirst) await task().catch(nameFlag);
    });
  }
}

/**
 * Returns the run that a job continues, which is the run that saved the checkpoint. Returns undefined if the
 * job starts a new run, because no run saved the checkpoint, or because --ckpt-step selects an earlier
 * checkpoint. With --ckpt-step, the earlier run's later checkpoints are kept, and the user may delete them.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO, _DENIED
 */
export async function continuedRun(
  checkpoint: Checkpoint,
  { isStepChosen = false }: { readonly isStepChosen?: boolean | undefined } = {},
): Promise<string | undefined> {
  const run = await runOfCheckpoint(checkpoint);
  if (run === undefined || !isStepChosen) return run;
  for (const later of (await listCheckpoints(dirname(checkpoint.path)))?.checkpoints ?? []) {
    if (later.manifest.savedAtMs <= checkpoint.manifest.savedAtMs) break;
    if ((await runOfCheckpoint(later)) === run) return undefined;
  }
  return run;
}

/** Adds --save to the remedy of an error, for users who passed no --save and may not know the flag. */
function nameFlag(error: unknown): never {
  if (!MtlError.isInstance(error) || error.remedy?.includes('--save') === true) throw error;
  if (error.remedy?.includes('--load') === true) throw error;
  const first = error.remedy === undefined ? '' : `${error.remedy}; or `;
  throw changedError(error, { remedy: `${first}name another place with --save` });
}

interface ChooseSaveDirectoryOptions {
  readonly flags: Pick<Flags, 'save' | 'load' | 'finetune' | 'ckpt-step'>;
  readonly preset: string;
  /**
   * The time at which the job was first started. Restarts do not change it, so that a restarted job finds its
   * checkpoints.
   */
  readonly startedAt: Date;
  /** The id of the process that started the job. It distinguishes runs that start in the same second. */
  readonly processId: number;
}

/**
 * Chooses the directory to which a run saves: the directory of --save if the flag is given; otherwise the
 * directory of --load if the run continues the run there; otherwise a new directory
 * runs/PRESET-DATE-TIME-PROCESS. With --finetune or --ckpt-step, a run does not continue the newest
 * checkpoint in --load, and saving there could replace that checkpoint.
 */
export function chooseSaveDirectory(options: ChooseSaveDirectoryOptions): string {
  const { flags, preset, startedAt, processId } = options;
  if (flags.save !== undefined) return flags.save;
  const continues = flags.finetune !== true && flags['ckpt-step'] === undefined;
  if (flags.load !== undefined && continues) return flags.load;
  const time = startedAt.toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '');
  return join('runs', `${preset}-${time}-${processId}`);
}

/** The flags that determine where a run saves and which run it continues. */
interface RunPlaces {
  readonly save?: string | undefined;
  readonly load?: string | undefined;
  readonly finetune?: boolean | undefined;
}

/**
 * Rejects a --save directory that contains checkpoints of runs that this run does not continue.
 *
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS, status 2
 */
export async function refuseOtherRuns(
  { save, load, finetune }: RunPlaces,
  job: { readonly id?: string | undefined; readonly restartCount: number },
): Promise<void> {
  if (save === undefined) return;
  const isLoaded = isSamePlace(load, save);
  if (isLoaded && finetune !== true) return;
  await refuseCheckpoints(save, {
    remedy: isLoaded
      ? `choose another directory with --save: --finetune starts at iteration 0, and ${save} would hold checkpoints of two runs`
      : `continue that training run with --load ${save}, or choose another directory`,
    // an earlier attempt of this job may have saved checkpoints there
    exceptJob: job.restartCount > 0 ? job.id : undefined,
  });
}

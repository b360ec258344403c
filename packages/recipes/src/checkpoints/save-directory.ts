import { existsSync } from 'node:fs';
import { OwnedDirectory, prepareSaveDirectory } from '@mtl/checkpoint';
import { CheckpointError, MtlError } from '@mtl/errors';
import type { Job } from '../training/read-job.js';
import type { TrainingProcesses } from '../training/training-processes.js';
import { isSamePlace } from './is-same-place.js';
import { refuseCheckpoints } from './refuse-checkpoints.js';

export interface SaveDirectoryOptions {
  readonly checkpoint: {
    readonly save?: string | undefined;
    readonly load?: string | undefined;
    readonly finetune?: boolean;
  };
  readonly job: Job;
  readonly processes: TrainingProcesses;
  readonly onMessage: (text: string) => void;
}

/**
 * The directory of --save, which belongs to this run from its start to its end: no other run saves there.
 * All ranks call its methods alike; rank 0 does the work.
 */
export class SaveDirectory {
  readonly #options: SaveDirectoryOptions;
  #owned: OwnedDirectory | undefined;

  constructor(options: SaveDirectoryOptions) {
    this.#options = options;
  }

  /** Of rank 0, once it is owned. */
  get owned(): OwnedDirectory | undefined {
    return this.#owned;
  }

  /**
   * Owns the directory if it exists, before a checkpoint is taken from it: another run may not write there
   * any more.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED when another run saves there
   */
  async ownExisting(): Promise<void> {
    const { save } = this.#options.checkpoint;
    await this.#onFirst(async () => {
      if (save !== undefined && existsSync(save)) await this.#own(save);
    });
  }

  /**
   * Owns the directory, made when missing.
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
   * Makes sure, before the first step, that a training run can save, and that it saves over no other one.
   *
   * @param options.numBytes of one checkpoint
   * @throws CheckpointError MTL_CHECKPOINT_OWNED; MTL_CHECKPOINT_EXISTS when --save holds checkpoints of
   *   other runs that this one does not continue; MTL_CHECKPOINT_DENIED, _IO or _DISK_FULL when nothing can
   *   be saved there
   */
  async prepare({ numBytes }: { readonly numBytes: number }): Promise<void> {
    const { checkpoint, job } = this.#options;
    const { save, load, finetune } = checkpoint;
    if (save === undefined) return;
    const isLoaded = isSamePlace(load, save);
    await this.#onFirst(async () => {
      await prepareSaveDirectory({ directory: save, numBytes });
      if (this.#owned === undefined) await this.#own(save);
      if (isLoaded && !finetune) return;
      await refuseCheckpoints(save, {
        remedy: isLoaded
          ? `choose another directory with --save: --finetune starts at iteration 0, and ${save} would hold checkpoints of two runs`
          : `continue that training run with --load ${save}, or choose another directory`,
        // what an earlier attempt of this job saved
        exceptJob: job.restartCount > 0 ? job.id : undefined,
      });
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

/** Users who passed no --save learn that it exists. */
function nameFlag(error: unknown): never {
  if (!MtlError.isInstance(error) || error.remedy?.includes('--save') === true) throw error;
  if (error.remedy?.includes('--load') === true) throw error;
  const { code, message, expected, remedy, details, exitCode } = error;
  throw new CheckpointError(code, message, {
    ...(expected === undefined ? {} : { expected }),
    remedy: `${remedy === undefined ? '' : `${remedy}; or `}name another place with --save`,
    details,
    exitCode,
    cause: error,
  });
}

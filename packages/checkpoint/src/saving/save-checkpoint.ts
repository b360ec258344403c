import { join } from 'node:path';
import { CheckpointError, UsageError } from '@mtl/errors';
import type { LogicalTensor } from '@mtl/layout';
import { checkpointName } from '../checkpoints/checkpoint-directory.js';
import { checkJsonState, type JsonObject } from '../checkpoints/manifest.js';
import { OwnedDirectory } from '../checkpoints/owned-directory.js';
import { newSaveOwner, ownerName, parseSaveOwner, type SaveOwner } from '../checkpoints/save-owner.js';
import { type FileSystem, makeDirectory, nodeFileSystem, writeDurably } from '../files/file-system.js';
import { systemCode, withIoErrors } from '../files/io-error.js';
import { checkLogicalTensors } from '../tensors/logical-tensor.js';
import { publishCheckpoint } from './publish-checkpoint.js';
import {
  cleanLeftovers,
  deleteOldCheckpoints,
  preparedTrackerName,
  savesUnderWay,
  savingPath,
} from './save-directory.js';
import { type RankShards, type RankShardsOptions, writeRankShards } from './write-rank-shards.js';

/**
 * Saves a checkpoint. Every rank writes its boxes into its own shards in `iter_0000123.saving`. Then rank 0
 * merges the ranks' tables into the manifest and publishes the directory with a rename. All files and
 * directories are on the disk (fsync) before the rename.
 *
 * If anything fails on any rank before the rename, all ranks throw, no new files remain, and existing
 * checkpoints are unchanged. If only the deletion of old checkpoints fails, all ranks also throw, but the new
 * checkpoint stays. The save needs memory for the largest box of a tensor with `readInto`; for other tensors,
 * it needs memory for the result of `read`.
 *
 * @throws CheckpointError MTL_NOT_FINITE if a value is NaN or infinite (see `requireFinite`)
 * @throws CheckpointError MTL_CHECKPOINT_DISK_FULL, _DENIED, _IO; MTL_CHECKPOINT_BUSY if another process is
 *   saving the same iteration in this directory; MTL_CHECKPOINT_PEER if another rank failed;
 *   MTL_CHECKPOINT_NOT_SHARED
 * @throws UsageError MTL_CHECKPOINT_TENSOR, _STATE, _COVER, _OPTIONS; MTL_SAFETENSORS_ORDER if `read` returns
 *   a wrong number of bytes
 */
export async function saveCheckpoint(options: SaveOptions): Promise<SaveResult> {
  const { tensors, fileSystem = nodeFileSystem } = options;
  const save = new CheckpointSave(options);
  await save.begin();
  return await save.finish(async () =>
    writeRankShards({ ...(await save.shardsPlace()), tensors, fileSystem }),
  );
}

/**
 * A barrier. It waits until every rank has made the same call, and resolves to true if all ranks passed true.
 * An all-reduce (minimum) over the ranks is a valid barrier. If a rank has failed, the barrier must reject
 * instead of waiting forever.
 */
export type SaveBarrier = (succeeded: boolean) => Promise<boolean>;

export interface SaveOptions {
  /**
   * The directory of checkpoints, which is created if it does not exist. The checkpoint becomes the
   * subdirectory `iter_0000123`.
   */
  readonly directory: string;
  readonly iteration: number;
  /**
   * The tensors of this rank. Over all ranks, every element of every tensor must occur exactly once as
   * replica 0.
   */
  readonly tensors: readonly LogicalTensor[];
  /** All other data that a resumed run needs. The state of rank 0 is stored. */
  readonly state: JsonObject;
  /**
   * The number of checkpoints to keep: older checkpoints are deleted after saving. Default: keep all. Only
   * checkpoints of the same `run` are counted and deleted.
   */
  readonly keepLast?: number;
  /**
   * The name of the run, which the manifest records. A later job that resumes the run passes
   * `runOfCheckpoint` of the loaded checkpoint, so that the name stays the same. Default: the name of the job
   * in `owned`. Without `owned`, no run is recorded, and `keepLast` counts only checkpoints without a run.
   */
  readonly run?: string | undefined;
  /** The checkpoint that this process has loaded. `keepLast` never deletes it. */
  readonly loadedFrom?: string | undefined;
  /**
   * Ownership of the save directory or of a parent directory, passed by rank 0. It is checked before anything
   * is written, and again before the checkpoint is published. Without this option, the save fails if a
   * running process owns the directory.
   */
  readonly owned?: OwnedDirectory | undefined;
  /**
   * Rank 0 calls this function when the directory exists, before anything is written. The function can
   * restore files that are kept next to the checkpoints, if they were deleted with the directory. If the
   * function throws, the save fails.
   */
  readonly prepareDirectory?: (() => Promise<void>) | undefined;
  readonly rank?: number;
  readonly worldSize?: number;
  /** Required if worldSize is above 1. All ranks must save into the same directory on shared storage. */
  readonly barrier?: SaveBarrier;
  /**
   * True to reject values on any rank that are NaN, infinite or beyond the `limit` of their tensor. The
   * values are checked in the same pass as the checksums. Default: true.
   */
  readonly requireFinite?: boolean;
  /**
   * The maximum size of a shard in bytes. Boxes are never split, so a larger box is a separate shard.
   * Default: 4 GiB.
   */
  readonly maxShardBytes?: number;
  /** The file operations, which tests replace. Default: the machine's file system. */
  readonly fileSystem?: FileSystem;
}

/** The result of a save. */
export interface SaveResult {
  readonly path: string;
  /** The number of bytes that this rank wrote into shards. */
  readonly bytes: number;
  /** The iterations that were deleted because of `keepLast`; on rank 0 only. */
  readonly deleted: readonly number[];
}

/** The directory, names and limits for a rank's shards. */
export type ShardsPlace = Omit<RankShardsOptions, 'tensors' | 'fileSystem'>;

type ResolvedOptions = SaveOptions & Required<Pick<SaveOptions, 'rank' | 'worldSize' | 'fileSystem'>>;

/**
 * The phases of a save, which all ranks run together: `begin`, then `finish`. Between the two phases, each
 * rank writes its shards. If a phase fails on any rank, it throws on all ranks, and no new files remain.
 */
export class CheckpointSave {
  readonly #options: ResolvedOptions;
  readonly #saving: string;
  readonly #owner: SaveOwner;

  constructor(options: SaveOptions) {
    const { rank = 0, worldSize = 1, fileSystem = nodeFileSystem } = options;
    this.#options = { ...options, rank, worldSize, fileSystem };
    this.#owner = newSaveOwner({ job: options.owned?.job });
    this.#saving = savingPath(options.directory, options.iteration);
  }

  /**
   * Checks the options and creates `iter_0000123.saving`. `also` is called in the same phase, on every rank.
   */
  async begin(also?: () => Promise<void>): Promise<void> {
    await this.#cleaningUp(async () => {
      await this.#together(async () => {
        checkOptions(this.#options);
        checkLogicalTensors(this.#options.tensors);
        checkJsonState(this.#options.state);
        if (this.#options.rank === 0) await this.#makeDirectory();
        await also?.();
      });
    });
  }

  /** Returns the options for writing this rank's shards. Must be called after `begin`. */
  async shardsPlace(): Promise<ShardsPlace> {
    const {
      rank,
      iteration,
      fileSystem,
      requireFinite = true,
      maxShardBytes = 4 * 1024 ** 3,
    } = this.#options;
    const token = rank === 0 ? this.#owner.token : await readToken(this.#saving, fileSystem);
    return { path: this.#saving, token, rank, iteration, requireFinite, maxShardBytes };
  }

  /** Publishes the checkpoint once `writePart` has resolved on every rank. */
  async finish(writePart: () => Promise<RankShards>): Promise<SaveResult> {
    const { directory, iteration, rank, keepLast, loadedFrom, fileSystem, owned } = this.#options;
    const { run = owned?.job } = this.#options;
    try {
      return await this.#cleaningUp(async () => {
        const part = await this.#together(writePart);
        await this.#together(async () => {
          if (rank !== 0) return;
          await owned?.check();
          const place = { saving: this.#saving, token: this.#owner.token };
          await publishCheckpoint({ ...this.#options, ...place, run });
        });
        const deleted = await this.#together(async () =>
          rank === 0 && keepLast !== undefined
            ? await deleteOldCheckpoints({ directory, keepLast, run, loadedFrom, fileSystem })
            : [],
        );
        const bytes = part.shards.reduce((sum, shard) => sum + shard.bytes, 0);
        return { path: join(directory, checkpointName(iteration)), bytes, deleted };
      });
    } finally {
      savesUnderWay.delete(this.#owner.token);
    }
  }

  /** Runs a phase on this rank and waits for the other ranks. Throws if any rank failed. */
  async #together<Result>(phase: () => Promise<Result>): Promise<Result> {
    const { iteration, barrier = async (succeeded: boolean) => succeeded } = this.#options;
    const [outcome] = await Promise.allSettled([phase()]);
    const all = await barrier(outcome.status === 'fulfilled');
    if (outcome.status === 'rejected') throw outcome.reason;
    if (all) return outcome.value;
    throw new CheckpointError(
      'MTL_CHECKPOINT_PEER',
      `iteration ${iteration} was not saved: another rank failed`,
      { remedy: 'see the message of that rank; the earlier checkpoints are untouched' },
    );
  }

  async #cleaningUp<Result>(phases: () => Promise<Result>): Promise<Result> {
    try {
      return await phases();
    } catch (error) {
      savesUnderWay.delete(this.#owner.token);
      // nothing is removed if the directory belongs to another process, or after publication, when `saving`
      // does not exist any more
      const foreign = error instanceof CheckpointError && codesOfOthers.includes(error.code);
      if (this.#options.rank === 0 && !foreign) await this.#removeTraces();
      throw error;
    }
  }

  async #makeDirectory(): Promise<void> {
    const { directory, iteration, fileSystem, owned, prepareDirectory } = this.#options;
    savesUnderWay.add(this.#owner.token);
    await withIoErrors({ action: 'save into', path: directory }, async () => {
      await makeDirectory(directory, fileSystem);
      if (owned === undefined) await OwnedDirectory.refuseOwned(directory);
      else await owned.check();
      await prepareDirectory?.();
      await cleanLeftovers({ directory, iteration, fileSystem });
      await fileSystem.mkdir(this.#saving);
    });
    const path = join(this.#saving, ownerName);
    await withIoErrors({ action: 'write', path }, () =>
      writeDurably({ path, text: `${JSON.stringify(this.#owner)}\n`, fileSystem }),
    );
  }

  /**
   * Removes the files of this save. A failure is ignored, because it would hide the first error. The next
   * save removes remaining files.
   */
  async #removeTraces(): Promise<void> {
    const { directory, fileSystem } = this.#options;
    await fileSystem.rm(this.#saving, { recursive: true, force: true }).catch(() => undefined);
    await fileSystem.rm(join(directory, preparedTrackerName), { force: true }).catch(() => undefined);
  }
}

const codesOfOthers: readonly string[] = ['MTL_CHECKPOINT_BUSY', 'MTL_CHECKPOINT_OWNED'];

function checkOptions(options: ResolvedOptions): void {
  const { iteration, keepLast = 1, rank, worldSize, barrier, maxShardBytes = 1 } = options;
  const fail = (message: string, expected: string): never => {
    throw new UsageError('MTL_CHECKPOINT_OPTIONS', `saveCheckpoint: ${message}`, { expected });
  };
  const isCount = (value: number, least: number): boolean => Number.isSafeInteger(value) && value >= least;
  if (!isCount(iteration, 0) || iteration > 999_999_999_999_999) fail(`iteration ${iteration}`, 'a count');
  if (!isCount(keepLast, 1)) fail(`keepLast ${keepLast}`, '1 or more: the newest is never deleted');
  if (!isCount(maxShardBytes, 1)) fail(`maxShardBytes ${maxShardBytes}`, 'a number of bytes');
  if (!isCount(worldSize, 1) || !isCount(rank, 0) || rank >= worldSize) {
    fail(`rank ${rank} of ${worldSize}`, '0 <= rank < worldSize');
  }
  if (worldSize > 1 && barrier === undefined) fail(`${worldSize} ranks without a barrier`, 'options.barrier');
}

/** Reads, from the owner file, the token that identifies the save that rank 0 began. */
async function readToken(saving: string, fileSystem: FileSystem): Promise<string> {
  const path = join(saving, ownerName);
  return await withIoErrors({ action: 'read', path }, async () => {
    try {
      return parseSaveOwner(await fileSystem.readFile(path, 'utf8'))!.token;
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      throw new CheckpointError(
        'MTL_CHECKPOINT_NOT_SHARED',
        `${saving}, made by rank 0, is not on this host`,
        {
          expected: 'a directory on a file system that all ranks share',
          remedy: 'save to shared storage',
        },
      );
    }
  });
}

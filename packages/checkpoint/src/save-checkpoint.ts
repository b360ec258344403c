import { join } from 'node:path';
import { CheckpointError, UsageError } from '@mtl/errors';
import { checkpointName } from './checkpoint-names.js';
import { cleanLeftovers, preparedTrackerName, savesUnderWay, savingPath } from './clean-leftovers.js';
import { deleteOldCheckpoints } from './delete-old-checkpoints.js';
import { type FileSystem, nodeFileSystem } from './file-system.js';
import { systemCode, withIoErrors } from './io-error.js';
import { checkJsonState, type JsonObject } from './json-state.js';
import { checkLogicalTensors, type LogicalTensor } from './logical-tensor.js';
import { makeDirectory } from './make-directory.js';
import { publishCheckpoint } from './publish-checkpoint.js';
import { newSaveOwner, ownerName, parseSaveOwner } from './save-owner.js';
import { writeDurably } from './write-durably.js';
import { writeRankShards } from './write-rank-shards.js';

/**
 * Waits until every rank has called it the same number of times; resolves to whether all of them passed true.
 * An all-reduce (minimum) over the ranks is one. It must reject, not wait for ever, when a rank is gone.
 */
export type SaveBarrier = (succeeded: boolean) => Promise<boolean>;

export interface SaveOptions {
  /** Directory of checkpoints, made when missing; the checkpoint is `iter_0000123` in it. */
  readonly directory: string;
  readonly iteration: number;
  /** What this rank holds. All ranks together must give every element of every tensor once as replica 0. */
  readonly tensors: readonly LogicalTensor[];
  /** Everything else that a resume needs; rank 0's is stored. */
  readonly state: JsonObject;
  /** Delete all but this many after saving; keeps all by default. */
  readonly keepLast?: number;
  readonly rank?: number;
  readonly worldSize?: number;
  /** Required when worldSize is above 1; all ranks save into one directory on shared storage. */
  readonly barrier?: SaveBarrier;
  /** A tensor's box is never cut; 4 GiB by default. */
  readonly maxShardBytes?: number;
  /** For tests. */
  readonly fileSystem?: FileSystem;
}

/** What a save did. */
export interface SaveResult {
  readonly path: string;
  /** Bytes that this rank wrote into shards. */
  readonly bytes: number;
  /** Iterations deleted because of keepLast; on rank 0 only. */
  readonly deleted: readonly number[];
}

type ResolvedOptions = SaveOptions & Required<Pick<SaveOptions, 'rank' | 'worldSize' | 'fileSystem'>>;

/**
 * Saves a checkpoint: every rank writes its boxes into shards of its own in `iter_0000123.saving`, rank 0
 * joins their tables into the manifest and publishes the directory by one rename. All files and directories
 * are on the disk (fsync) before. If anything fails on any rank until then, all ranks throw, nothing new is
 * left behind, and the checkpoints that were there stay as they were; if only deleting old ones fails, all
 * ranks throw as well, and the new one stays. Memory: the largest box of a tensor with `readInto`; of others,
 * whatever `read` takes.
 *
 * @throws CheckpointError MTL_CHECKPOINT_DISK_FULL, _DENIED, _IO; MTL_CHECKPOINT_BUSY when another process
 *   saves the same iteration there; MTL_CHECKPOINT_PEER when another rank failed; MTL_CHECKPOINT_NOT_SHARED
 * @throws UsageError MTL_CHECKPOINT_TENSOR, _STATE, _COVER, _OPTIONS; MTL_SAFETENSORS_ORDER when `read` gives
 *   a wrong number of bytes
 */
export async function saveCheckpoint(options: SaveOptions): Promise<SaveResult> {
  const { rank = 0, worldSize = 1, fileSystem = nodeFileSystem } = options;
  const resolved: ResolvedOptions = { ...options, rank, worldSize, fileSystem };
  const saving = savingPath(options.directory, options.iteration);
  const owner = newSaveOwner();
  try {
    await together(resolved, async () => {
      checkOptions(resolved);
      checkLogicalTensors(options.tensors);
      checkJsonState(options.state);
      if (rank !== 0) return;
      savesUnderWay.add(owner.token);
      await prepare({ ...resolved, saving });
      const path = join(saving, ownerName);
      await withIoErrors({ action: 'write', path }, () =>
        writeDurably({ path, text: `${JSON.stringify(owner)}\n`, fileSystem }),
      );
    });
    const part = await together(resolved, async () => {
      const token = rank === 0 ? owner.token : await readToken(saving, fileSystem);
      const { tensors, maxShardBytes = 4 * 1024 ** 3 } = options;
      return await writeRankShards({ path: saving, token, rank, tensors, maxShardBytes, fileSystem });
    });
    await together(resolved, async () => {
      if (rank !== 0) return;
      await publishCheckpoint({ ...resolved, saving, token: owner.token });
    });
    const deleted = await together(resolved, async () => {
      const { directory, keepLast } = options;
      return rank === 0 && keepLast !== undefined
        ? await deleteOldCheckpoints({ directory, keepLast, fileSystem })
        : [];
    });
    const bytes = part.shards.reduce((sum, shard) => sum + shard.bytes, 0);
    return { path: join(options.directory, checkpointName(options.iteration)), bytes, deleted };
  } catch (error) {
    // BUSY: the directory is the other process's. Once published, `saving` is no more.
    const foreign = error instanceof CheckpointError && error.code === 'MTL_CHECKPOINT_BUSY';
    if (rank === 0 && !foreign) await removeTraces({ ...resolved, saving });
    throw error;
  } finally {
    savesUnderWay.delete(owner.token);
  }
}

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

/** Runs one phase on this rank and waits for the others; throws when any rank failed. */
async function together<Result>(options: ResolvedOptions, phase: () => Promise<Result>): Promise<Result> {
  const { barrier = async (succeeded: boolean) => succeeded } = options;
  const [outcome] = await Promise.allSettled([phase()]);
  const all = await barrier(outcome.status === 'fulfilled');
  if (outcome.status === 'rejected') throw outcome.reason;
  if (all) return outcome.value;
  throw new CheckpointError(
    'MTL_CHECKPOINT_PEER',
    `iteration ${options.iteration} was not saved: another rank failed`,
    { remedy: 'see the message of that rank; the earlier checkpoints are untouched' },
  );
}

async function prepare(options: ResolvedOptions & { readonly saving: string }): Promise<void> {
  const { directory, iteration, fileSystem, saving } = options;
  await withIoErrors({ action: 'save into', path: directory }, async () => {
    await makeDirectory(directory, fileSystem);
    await cleanLeftovers({ directory, iteration, fileSystem });
    await fileSystem.mkdir(saving);
  });
}

/** The token of the save that rank 0 has begun. */
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

/** After a failure: what stays is cleaned by the next save, so this must not hide the error that led here. */
async function removeTraces(options: ResolvedOptions & { readonly saving: string }): Promise<void> {
  const { directory, fileSystem, saving } = options;
  await fileSystem.rm(saving, { recursive: true, force: true }).catch(() => undefined);
  await fileSystem.rm(join(directory, preparedTrackerName), { force: true }).catch(() => undefined);
}

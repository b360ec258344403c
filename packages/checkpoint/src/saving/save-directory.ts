import { access, constants, realpath, stat, statfs } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { type Checkpoint, runOfCheckpoint } from '../checkpoints/checkpoint.js';
import {
  checkpointName,
  listCheckpoints,
  parseCheckpointName,
  trackerName,
  unfinishedName,
} from '../checkpoints/checkpoint-directory.js';
import {
  checkLiveness,
  maxOwnerBytes,
  ownerName,
  parseSaveOwner,
  type SaveOwner,
} from '../checkpoints/save-owner.js';
import { type FileSystem, makeDirectory, nodeFileSystem, readRegularFile } from '../files/file-system.js';
import { withIoErrors } from '../files/io-error.js';

/**
 * Creates the directory into which a training run will save, and checks that saving will be possible. If
 * saving is impossible, the run fails before its first step.
 *
 * @param options.numBytes the size of a checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_DENIED or MTL_CHECKPOINT_IO if the directory cannot be created or
 *   written to, MTL_CHECKPOINT_DISK_FULL if its file system has no room for a checkpoint
 */
export async function prepareSaveDirectory(options: {
  readonly directory: string;
  readonly numBytes: number;
}): Promise<void> {
  const { directory, numBytes } = options;
  await withIoErrors({ action: 'save into', path: directory, exitCode: 2 }, async () => {
    await makeDirectory(directory, nodeFileSystem);
    // with `/.` at the end, `access` also fails if the path is a file
    await access(`${directory}/.`, constants.W_OK | constants.X_OK);
    await refuseDirectory(join(directory, trackerName));
  });
  const { bavail, blocks, bsize } = await statfs(directory);
  const numFree = bavail * bsize;
  // some FUSE file systems report 0 blocks because they do not know their size
  if (blocks === 0 || numFree >= numBytes) return;
  const inMiB = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  throw new CheckpointError(
    'MTL_CHECKPOINT_DISK_FULL',
    `a checkpoint takes ${inMiB(numBytes)}, and ${directory} has ${inMiB(numFree)} left`,
    { remedy: 'free space there or save to another file system', exitCode: 2 },
  );
}

/** Throws if the path of the tracker file is a directory, because the tracker is written by a rename. */
async function refuseDirectory(path: string): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status?.isDirectory() !== true) return;
  throw new CheckpointError('MTL_CHECKPOINT_IO', `${path} is a directory`, {
    expected: 'the file that names the newest checkpoint, or nothing',
    remedy: 'remove or rename it',
    details: { path },
    exitCode: 2,
  });
}

/** The temporary name under which the tracker file is written. */
export const preparedTrackerName = `${trackerName}.saving`;

/** The tokens that identify the saves that this process is running now. */
export const savesUnderWay = new Set<string>();

// The age after which an unfinished save on a different machine counts as dead, because its process cannot be
// checked from here. A running save writes to its files all the time, and no file system takes an hour to
// write a buffer.
const staleAfterMs = 60 * 60 * 1000;

/**
 * Removes the files of killed saves and deletions from a directory of checkpoints. Also renames a `replaced`
 * checkpoint back if its replacement is missing. Files that a living process is writing are not touched.
 *
 * @param options.iteration the iteration that will be saved here. An unfinished save of this iteration is
 *   removed, unless its owner is certainly alive
 * @returns the names that were removed or renamed back
 * @throws CheckpointError MTL_CHECKPOINT_BUSY if another process is saving this iteration; MTL_CHECKPOINT_IO,
 *   _DENIED
 */
export async function cleanLeftovers(options: {
  readonly directory: string;
  readonly iteration: number;
  readonly fileSystem: FileSystem;
}): Promise<string[]> {
  const { directory, iteration, fileSystem } = options;
  return await withIoErrors({ action: 'clean up', path: directory }, async () => {
    const names = await fileSystem.readdir(directory);
    const entries = names.flatMap((name) => {
      const parsed = parseCheckpointName(name);
      return parsed === undefined ? [] : [{ name, ...parsed }];
    });
    const handled: string[] = [];
    const remove = async (name: string): Promise<void> => {
      await fileSystem.rm(join(directory, name), { recursive: true, force: true });
      handled.push(name);
    };
    const inUse = new Set<number>();
    for (const { name, iteration: owned, kind } of entries) {
      if (kind !== 'saving') continue;
      const use = await checkUse({ path: join(directory, name), fileSystem });
      if (use === 'alive' && owned === iteration) throw busy(join(directory, name));
      if (use === 'stale' || owned === iteration) await remove(name);
      else inUse.add(owned);
    }
    for (const { name, iteration: owned, kind } of entries) {
      if (kind === 'deleting') await remove(name);
      if (kind !== 'replaced' || inUse.has(owned)) continue;
      if (names.includes(checkpointName(owned))) await remove(name);
      else {
        await fileSystem.rename(join(directory, name), join(directory, checkpointName(owned)));
        handled.push(name);
      }
    }
    if (names.includes(preparedTrackerName) && inUse.size === 0) await remove(preparedTrackerName);
    return handled;
  });
}

function busy(path: string): CheckpointError {
  return new CheckpointError('MTL_CHECKPOINT_BUSY', `another process is saving ${path}`, {
    remedy: 'give every run a directory of its own, or end the other run',
    details: { path },
  });
}

/**
 * Checks whether a process is writing the unfinished save at `path`: certainly (`alive`), perhaps, or not any
 * more (`stale`).
 */
async function checkUse(options: {
  readonly path: string;
  readonly fileSystem: FileSystem;
}): Promise<'alive' | 'perhaps' | 'stale'> {
  const { path, fileSystem } = options;
  let owner: SaveOwner | undefined;
  try {
    owner = parseSaveOwner(await readRegularFile(join(path, ownerName), { maxBytes: maxOwnerBytes }));
  } catch {
    // the owner file is missing: the process has created the directory but not yet written this file, or was
    // killed before that. Therefore the age of the directory decides
  }
  if (owner !== undefined) {
    if (savesUnderWay.has(owner.token)) return 'alive';
    const liveness = checkLiveness(owner);
    if (liveness === 'alive') return 'alive';
    if (liveness === 'dead') return 'stale';
  }
  let newest = 0;
  for (const name of ['.', ...(await fileSystem.readdir(path))]) {
    const status = await fileSystem.stat(join(path, name)).catch(() => undefined);
    newest = Math.max(newest, status?.mtimeMs ?? 0);
  }
  return Date.now() - newest > staleAfterMs ? 'stale' : 'perhaps';
}

/** Returns the path of the temporary directory for an iteration that is being written. */
export function savingPath(directory: string, iteration: number): string {
  return join(directory, unfinishedName(iteration, 'saving'));
}

/**
 * Deletes old checkpoints of a run and keeps the last `keepLast` checkpoints. A checkpoint counts only if all
 * its shards have their expected size, so that the newest complete checkpoint always stays. Checkpoints of
 * other runs stay. Directories without a valid manifest also stay, because they may belong to another
 * program. A directory is renamed before its files are deleted, so that a partly deleted directory never
 * looks complete.
 *
 * @param options.run only checkpoints of this run are counted and deleted; undefined: checkpoints without a
 *   run
 * @param options.loadedFrom the path of a checkpoint that is kept in any case
 * @returns the deleted iterations
 */
export async function deleteOldCheckpoints(options: {
  readonly directory: string;
  readonly keepLast: number;
  readonly run: string | undefined;
  readonly loadedFrom?: string | undefined;
  readonly fileSystem: FileSystem;
}): Promise<number[]> {
  const { directory, keepLast, run, loadedFrom, fileSystem } = options;
  const kept = loadedFrom === undefined ? undefined : await realPath(loadedFrom);
  const listing = await listCheckpoints(directory);
  const deleted: number[] = [];
  let numKept = 0;
  for (const checkpoint of listing?.checkpoints ?? []) {
    if ((await runOfCheckpoint(checkpoint)) !== run) continue;
    if (numKept < keepLast) {
      if (await hasItsShards(checkpoint, fileSystem)) numKept++;
      continue;
    }
    if (kept !== undefined && (await realPath(checkpoint.path)) === kept) continue;
    const { iteration, path } = checkpoint;
    const doomed = join(directory, unfinishedName(iteration, 'deleting'));
    await withIoErrors({ action: 'delete', path }, async () => {
      await fileSystem.rename(path, doomed);
      await fileSystem.rm(doomed, { recursive: true, force: true });
    });
    deleted.push(iteration);
  }
  return deleted;
}

/** Returns a path with its symbolic links resolved, or the absolute path if nothing exists there. */
const realPath = async (path: string): Promise<string> => await realpath(path).catch(() => resolve(path));

async function hasItsShards(checkpoint: Checkpoint, fileSystem: FileSystem): Promise<boolean> {
  for (const { file, bytes } of checkpoint.manifest.shards) {
    const status = await fileSystem.stat(join(checkpoint.path, file)).catch(() => undefined);
    if (status?.size !== bytes) return false;
  }
  return true;
}

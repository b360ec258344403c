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
 * Makes the directory that a training run will save into and checks that saving will be possible, so that a
 * failure shows before the first step and not after the last.
 *
 * @param options.numBytes bytes of one checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_DENIED or MTL_CHECKPOINT_IO when it cannot be made or written to,
 *   MTL_CHECKPOINT_DISK_FULL when its file system has no room for one checkpoint
 */
export async function prepareSaveDirectory(options: {
  readonly directory: string;
  readonly numBytes: number;
}): Promise<void> {
  const { directory, numBytes } = options;
  await withIoErrors({ action: 'save into', path: directory, exitCode: 2 }, async () => {
    await makeDirectory(directory, nodeFileSystem);
    // with the dot, `access` also fails for a file in place of the directory
    await access(`${directory}/.`, constants.W_OK | constants.X_OK);
    await refuseDirectory(join(directory, trackerName));
  });
  const { bavail, blocks, bsize } = await statfs(directory);
  const numFree = bavail * bsize;
  // some file systems in user space report no sizes
  if (blocks === 0 || numFree >= numBytes) return;
  const inMiB = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  throw new CheckpointError(
    'MTL_CHECKPOINT_DISK_FULL',
    `a checkpoint takes ${inMiB(numBytes)}, and ${directory} has ${inMiB(numFree)} left`,
    { remedy: 'free space there or save to another file system', exitCode: 2 },
  );
}

/** Refuses a directory at the path of the tracker, which is replaced by a rename. */
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

/** Name under which the tracker file is prepared. */
export const preparedTrackerName = `${trackerName}.saving`;

/** Tokens of the saves that this process is doing right now. */
export const savesUnderWay = new Set<string>();

// It is unknown if the process of an unfinished save on another machine lives. A living save writes to its
// files all the time; an hour without a write is longer than any file system takes to write a buffer.
const staleAfterMs = 60 * 60 * 1000;

/**
 * Removes the files that killed saves and deletions left in a directory of checkpoints, and puts back a
 * checkpoint that was moved aside for another one that is missing. It leaves alone the files that a living
 * process is writing.
 *
 * @param options.iteration the iteration about to be saved here: its leftover is removed unless the owner of
 *   the leftover certainly lives
 * @returns names removed or put back
 * @throws CheckpointError MTL_CHECKPOINT_BUSY when another process is saving that very iteration;
 *   MTL_CHECKPOINT_IO, _DENIED
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

/** Returns whether a process writes the unfinished save at `path`: certainly, perhaps, or no longer. */
async function checkUse(options: {
  readonly path: string;
  readonly fileSystem: FileSystem;
}): Promise<'alive' | 'perhaps' | 'stale'> {
  const { path, fileSystem } = options;
  let owner: SaveOwner | undefined;
  try {
    owner = parseSaveOwner(await readRegularFile(join(path, ownerName), { maxBytes: maxOwnerBytes }));
  } catch {
    // The process was killed, or is still alive, between making the directory and writing this file: the
    // directory's age decides below.
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

/** Returns the path of the directory in which an iteration is written until it is published. */
export function savingPath(directory: string, iteration: number): string {
  return join(directory, unfinishedName(iteration, 'saving'));
}

/**
 * Deletes all but the `keepLast` checkpoints of a run that were saved last and whose shards all have their
 * size. The newest whole one therefore always stays, and so do checkpoints of other runs. Directories without
 * a sound manifest of ours are never touched: they may be another program's. A directory is renamed before it
 * is emptied, so that no half-deleted one looks whole.
 *
 * @param options.run only checkpoints of this run are counted and deleted; undefined: checkpoints that name
 *   no run
 * @param options.loadedFrom path of a checkpoint that stays, at any place in the order
 * @returns iterations deleted
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

/** Returns a path with its links resolved; the absolute path if nothing exists there. */
const realPath = async (path: string): Promise<string> => await realpath(path).catch(() => resolve(path));

async function hasItsShards(checkpoint: Checkpoint, fileSystem: FileSystem): Promise<boolean> {
  for (const { file, bytes } of checkpoint.manifest.shards) {
    const status = await fileSystem.stat(join(checkpoint.path, file)).catch(() => undefined);
    if (status?.size !== bytes) return false;
  }
  return true;
}

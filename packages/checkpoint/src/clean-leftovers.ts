import { join } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { checkpointName, parseCheckpointName, trackerName, unfinishedName } from './checkpoint-names.js';
import type { FileSystem } from './file-system.js';
import { withIoErrors } from './io-error.js';
import { readRegularFile } from './open-regular-file.js';
import { livenessOf, maxOwnerBytes, ownerName, parseSaveOwner, type SaveOwner } from './save-owner.js';

/** Name under which the tracker file is prepared. */
export const preparedTrackerName = `${trackerName}.saving`;

/** Tokens of the saves that this process is doing right now. */
export const savesUnderWay = new Set<string>();

// An unfinished save of another machine cannot be asked whether it lives. Writing touches its files all the
// time; an hour without is longer than any file system takes to swallow a buffer.
const staleAfterMs = 60 * 60 * 1000;

/**
 * Removes what killed saves and deletions left in a directory of checkpoints, and puts back a checkpoint that
 * was moved aside for one that never came. Leaves alone what a living process is writing.
 *
 * @param options.iteration the iteration about to be saved here: its leftover goes unless its owner surely
 *   lives
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
      const use = await useOf({ path: join(directory, name), fileSystem });
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

/** Whether someone writes the unfinished save at `path`: surely, perhaps, or no more. */
async function useOf(options: {
  readonly path: string;
  readonly fileSystem: FileSystem;
}): Promise<'alive' | 'perhaps' | 'stale'> {
  const { path, fileSystem } = options;
  let owner: SaveOwner | undefined;
  try {
    owner = parseSaveOwner(await readRegularFile(join(path, ownerName), { maxBytes: maxOwnerBytes }));
  } catch {
    // Killed, or alive, between making the directory and naming its owner: its age decides below.
  }
  if (owner !== undefined) {
    if (savesUnderWay.has(owner.token)) return 'alive';
    const liveness = livenessOf(owner);
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

/** Name of the directory in which an iteration is written until it is published. */
export function savingPath(directory: string, iteration: number): string {
  return join(directory, unfinishedName(iteration, 'saving'));
}

import { join } from 'node:path';
import type { Checkpoint } from './checkpoint.js';
import { unfinishedName } from './checkpoint-names.js';
import type { FileSystem } from './file-system.js';
import { withIoErrors } from './io-error.js';
import { jobOfCheckpoint } from './job-of-checkpoint.js';
import { listCheckpoints } from './list-checkpoints.js';

/**
 * Deletes all but the `keepLast` checkpoints that were saved last and whose shards all have their size. The
 * newest whole one therefore always stays. Directories without a sound manifest of ours are never touched:
 * they may be another program's. A directory is renamed before it is emptied, so that no half-deleted one
 * looks whole.
 *
 * @param options.job when given, only checkpoints that this job saved are counted and deleted
 * @returns iterations deleted
 */
export async function deleteOldCheckpoints(options: {
  readonly directory: string;
  readonly keepLast: number;
  readonly job?: string | undefined;
  readonly fileSystem: FileSystem;
}): Promise<number[]> {
  const { directory, keepLast, job, fileSystem } = options;
  const listing = await listCheckpoints(directory);
  const deleted: number[] = [];
  let kept = 0;
  for (const checkpoint of listing?.checkpoints ?? []) {
    if (job !== undefined && (await jobOfCheckpoint(checkpoint.path)) !== job) continue;
    if (kept < keepLast) {
      if (await hasItsShards(checkpoint, fileSystem)) kept++;
      continue;
    }
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

async function hasItsShards(checkpoint: Checkpoint, fileSystem: FileSystem): Promise<boolean> {
  for (const { file, bytes } of checkpoint.manifest.shards) {
    const status = await fileSystem.stat(join(checkpoint.path, file)).catch(() => undefined);
    if (status?.size !== bytes) return false;
  }
  return true;
}

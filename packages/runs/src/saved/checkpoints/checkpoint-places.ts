import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { listCheckpoints } from '@mtl/checkpoint';
import { jobOfCheckpoint } from '@mtl/checkpoint/internal';
import { CheckpointError } from '@mtl/errors';

/**
 * Rejects a directory that contains complete or incomplete checkpoints. A training run in this directory
 * would mix its own checkpoints with the existing checkpoints, and would resume from the newest of both.
 * `remedy` tells the user what to do instead. Checkpoints of the job `exceptJob` are allowed.
 *
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS, status 2
 */
export async function refuseCheckpoints(
  save: string,
  { remedy, exceptJob }: { readonly remedy: string; readonly exceptJob?: string | undefined },
): Promise<void> {
  const listing = await listCheckpoints(save);
  for (const { path } of [...(listing?.checkpoints ?? []), ...(listing?.skipped ?? [])]) {
    if (exceptJob !== undefined && (await jobOfCheckpoint(path)) === exceptJob) continue;
    throw new CheckpointError('MTL_CHECKPOINT_EXISTS', `--save ${save} holds ${path} already`, {
      expected: 'a directory without checkpoints',
      remedy,
      exitCode: 2,
    });
  }
}

/** Returns true if two paths lead to the same directory, which need not exist yet. */
export function isSamePlace(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && describePlace(one) === describePlace(other);
}

function describePlace(directory: string): string {
  return existsSync(directory) ? realpathSync(directory) : resolve(directory);
}

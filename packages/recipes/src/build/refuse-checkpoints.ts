import { listCheckpoints } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';

/**
 * Refuses a directory that holds checkpoints, whole or not: a training would mix its own with them, and
 * resume from the newest of all.
 *
 * @param options.remedy what to do instead
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS, status 2
 */
export async function refuseCheckpoints(save: string, options: { readonly remedy: string }): Promise<void> {
  const listing = await listCheckpoints(save);
  const [first] = [...(listing?.checkpoints ?? []), ...(listing?.skipped ?? [])];
  if (first === undefined) return;
  throw new CheckpointError('MTL_CHECKPOINT_EXISTS', `--save ${save} holds ${first.path} already`, {
    expected: 'a directory without checkpoints',
    remedy: options.remedy,
    exitCode: 2,
  });
}

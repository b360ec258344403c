import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint, type CheckpointListing, listCheckpoints, type TensorRecord } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';

/**
 * The checkpoints that a path names: those of a training run's directory, or one by its own path.
 *
 * @throws CheckpointError MTL_CHECKPOINT_NONE when none is found
 */
export async function readCheckpoints(path: string): Promise<CheckpointListing> {
  if (existsSync(join(path, 'manifest.json'))) {
    return { checkpoints: [await Checkpoint.open(path)], skipped: [] };
  }
  const listing = await listCheckpoints(path);
  if (listing !== undefined && listing.checkpoints.length + listing.skipped.length > 0) return listing;
  throw new CheckpointError(
    'MTL_CHECKPOINT_NONE',
    listing === undefined ? `${path}: no such directory` : `${path} holds no checkpoint`,
    { expected: 'a directory that --save wrote, or one checkpoint in it', exitCode: 2 },
  );
}

/** Bytes of all shards. */
export function bytesOfCheckpoint({ manifest }: Checkpoint): number {
  return manifest.shards.reduce((sum, shard) => sum + shard.bytes, 0);
}

/** Elements of some tensors. */
export function elementsOf(tensors: Iterable<TensorRecord>): number {
  let sum = 0;
  for (const { globalShape } of tensors) sum += globalShape.reduce((product, size) => product * size, 1);
  return sum;
}

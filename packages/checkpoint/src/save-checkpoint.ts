import { CheckpointSave, type SaveOptions, type SaveResult } from './checkpoint-save.js';
import { nodeFileSystem } from './file-system.js';
import { writeRankShards } from './write-rank-shards.js';

/**
 * Saves a checkpoint: every rank writes its boxes into shards of its own in `iter_0000123.saving`, rank 0
 * joins their tables into the manifest and publishes the directory by one rename. All files and directories
 * are on the disk (fsync) before. If anything fails on any rank until then, all ranks throw, nothing new is
 * left behind, and the checkpoints that were there stay as they were; if only deleting old ones fails, all
 * ranks throw as well, and the new one stays. Memory: the largest box of a tensor with `readInto`; of others,
 * whatever `read` takes.
 *
 * @throws CheckpointError MTL_NOT_FINITE when a value is NaN or infinite (see `requireFinite`)
 * @throws CheckpointError MTL_CHECKPOINT_DISK_FULL, _DENIED, _IO; MTL_CHECKPOINT_BUSY when another process
 *   saves the same iteration there; MTL_CHECKPOINT_PEER when another rank failed; MTL_CHECKPOINT_NOT_SHARED
 * @throws UsageError MTL_CHECKPOINT_TENSOR, _STATE, _COVER, _OPTIONS; MTL_SAFETENSORS_ORDER when `read` gives
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

import { type Checkpoint, corruptCheckpoint } from '../checkpoints/checkpoint.js';
import { checksumBlockBytes } from '../files/block-checksums.js';
import { ioError } from '../files/io-error.js';
import { RunReader, type StoredBytes } from '../files/run-reader.js';
import { ShardCache } from './shard-cache.js';

// The number of concurrent reads. One block is checksummed while other blocks are read.
const readsUnderWay = 4;

/**
 * Reads every byte of a checkpoint and compares it with its checksum. At most four blocks (16 MiB) are in
 * memory. If `requireFinite` is true, values that are NaN or infinite are errors. Default: false.
 *
 * @throws CheckpointError MTL_NOT_FINITE, which names the tensor, if `requireFinite` is true
 * @throws CheckpointError MTL_CHECKPOINT_CORRUPT or MTL_SAFETENSORS_INVALID, which name the file and the
 *   first defect; MTL_CHECKPOINT_IO or _DENIED if a file cannot be read
 */
export async function verifyCheckpoint(
  checkpoint: Checkpoint,
  { requireFinite = false }: { readonly requireFinite?: boolean } = {},
): Promise<void> {
  await verifyUnread(checkpoint, { requireFinite, reader: new RunReader() });
}

/**
 * Verifies a checkpoint like `verifyCheckpoint`, but skips the blocks that `reader` has checked.
 *
 * @throws the errors of `verifyCheckpoint`
 */
export async function verifyUnread(
  checkpoint: Checkpoint,
  { requireFinite, reader }: { readonly requireFinite: boolean; readonly reader: RunReader },
): Promise<void> {
  const { manifest, path } = checkpoint;
  const shards = new ShardCache(checkpoint);
  try {
    for (const [index, shard] of manifest.shards.entries()) {
      const file = await shards.file(index);
      const stored: StoredBytes[] = [];
      for (const tensor of manifest.tensors) {
        for (const piece of tensor.pieces) {
          if (piece.shard === index) stored.push(await shards.stored(tensor, piece, { requireFinite }));
        }
      }
      // equal counts mean that the manifest lists every tensor of the file, so that all bytes are checked
      if (stored.length !== file.tensors.size) {
        const counts = `${file.tensors.size} tensors, and the manifest knows ${stored.length}`;
        throw corruptCheckpoint(path, `${shard.file} holds ${counts}`);
      }
      stored.sort((a, b) => a.offset - b.offset);
      await verifyBlocks(stored, reader);
    }
  } finally {
    await shards.close();
  }
}

async function verifyBlocks(stored: readonly StoredBytes[], reader: RunReader): Promise<void> {
  const tasks = stored
    .flatMap((source) => source.checksums!.map((_, block) => ({ source, block })))
    .filter(({ source, block }) => !reader.hasChecked(source, block));
  let next = 0;
  let failed = false;
  const work = async (): Promise<void> => {
    const memory = new Uint8Array(checksumBlockBytes);
    while (next < tasks.length && !failed) {
      const { source, block } = tasks[next++]!;
      try {
        await reader.checkBlock(source, block, memory);
      } catch (error) {
        failed = true;
        throw ioError(error, { action: 'read', path: source.path });
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: readsUnderWay }, work));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
}

import { join } from 'node:path';
import { type LogicalTensor, shapeOfSlices, volumeOfShape } from '@mtl/layout';
import type { ShardRecord, TensorRecord } from '../checkpoints/manifest.js';
import { type FileSystem, writeDurably } from '../files/file-system.js';
import { withIoErrors } from '../files/io-error.js';
import { groupByBytes, writeSafetensorsFile } from '../safetensors/safetensors-writer.js';
import { inAlignedOrder } from '../tensors/dtype.js';
import type { ValueCheck } from '../tensors/finite-values.js';
import { bytesOfSlices } from '../tensors/logical-tensor.js';
import { storedSlices } from '../tensors/stored-slices.js';

/** The shards and tensors that a rank wrote. Shard indices refer to the rank's own list. */
export interface RankShards {
  readonly token: string;
  readonly rank: number;
  readonly shards: readonly ShardRecord[];
  readonly tensors: readonly TensorRecord[];
}

export interface RankShardsOptions {
  /** The directory of the save in progress. */
  readonly path: string;
  /** The token that identifies the save that rank 0 began. */
  readonly token: string;
  readonly rank: number;
  readonly iteration: number;
  readonly tensors: readonly LogicalTensor[];
  /** True to refuse values that are not finite. */
  readonly requireFinite: boolean;
  readonly maxShardBytes: number;
  readonly fileSystem: FileSystem;
}

/** Returns the name of the file with a rank's list of shards. Rank 0 reads it to publish the checkpoint. */
export function partName(rank: number): string {
  return `part-${String(rank).padStart(5, '0')}.json`;
}

/**
 * Returns true if this rank writes the tensor's box. Only replica 0 is written, and only boxes that are not
 * empty.
 */
export function isWritten(tensor: LogicalTensor): boolean {
  if ((tensor.replica ?? 0) !== 0) return false;
  return bytesOfSlices(tensor.dtype, tensor.slices) > 0 || volumeOfShape(tensor.globalShape) === 0;
}

/**
 * Gives each box (a rank's slice of a tensor) a unique name within the file: the tensor's name for the first,
 * then `name#1`, `name#2` and so on.
 */
function withKeys(tensors: readonly LogicalTensor[]): { key: string; tensor: LogicalTensor }[] {
  const taken = new Set(tensors.map(({ name }) => name));
  const seen = new Set<string>();
  return tensors.map((tensor) => {
    let key = tensor.name;
    for (let part = 1; seen.has(key); part++) {
      const next = `${tensor.name}#${part}`;
      // The name may already be taken by another tensor.
      if (!taken.has(next)) key = next;
    }
    seen.add(key);
    return { key, tensor };
  });
}

function describeCheck({ name, slices, limit }: LogicalTensor, iteration: number): ValueCheck {
  return {
    place: `iteration ${iteration}`,
    name,
    slices,
    limit,
    outcome: 'this checkpoint was not published, and the earlier ones are as they were',
    remedy:
      'resume from the newest checkpoint with a lower learning rate (--lr), more warm-up or clipping (--clip-grad)',
  };
}

/**
 * Makes a function that reads any of the given tensors into one buffer. A tensor's bytes are valid until the
 * next call.
 */
function readerWithOneBuffer(
  tensors: readonly LogicalTensor[],
): (tensor: LogicalTensor) => Promise<Uint8Array> {
  const countBytes = ({ dtype, slices }: LogicalTensor): number => bytesOfSlices(dtype, slices);
  const copied = tensors.filter(({ readInto }) => readInto !== undefined);
  const buffer = new Uint8Array(copied.reduce((largest, tensor) => Math.max(largest, countBytes(tensor)), 0));
  return async (tensor) => {
    if (tensor.readInto === undefined) return await tensor.read();
    const box = buffer.subarray(0, countBytes(tensor));
    await tensor.readInto(box);
    return box;
  };
}

/**
 * Writes the boxes of a rank into safetensors shards of at most `maxShardBytes` in `path`, then the rank's
 * list of shards. All files are on the disk when the promise resolves. After a failed write, the file is
 * removed.
 *
 * @throws CheckpointError MTL_NOT_FINITE, whose message names the tensor, if `requireFinite` is true;
 *   MTL_CHECKPOINT_*
 */
export async function writeRankShards(options: RankShardsOptions): Promise<RankShards> {
  const { path, token, rank, fileSystem } = options;
  const items = withKeys(inAlignedOrder(options.tensors.filter(isWritten)));
  const groups = groupByBytes(items, {
    maxBytes: options.maxShardBytes,
    countBytes: ({ tensor }) => bytesOfSlices(tensor.dtype, tensor.slices),
  });
  const read = readerWithOneBuffer(items.map(({ tensor }) => tensor));
  const shards: ShardRecord[] = [];
  const tensors = new Map<string, TensorRecord>();
  for (const [index, group] of groups.entries()) {
    const digits = (value: number, width: number): string => String(value).padStart(width, '0');
    const file = `shard-${digits(rank, 5)}-${digits(index, 3)}.safetensors`;
    const sharded = group.filter(
      ({ tensor }) => shapeOfSlices(tensor.slices).join() !== tensor.globalShape.join(),
    );
    const slices = sharded.map(({ key, tensor }) => [
      key,
      { name: tensor.name, globalShape: tensor.globalShape, slices: storedSlices(tensor.slices) },
    ]);
    const written = await writeSafetensorsFile({
      path: join(path, file),
      tensors: group.map(({ key, tensor }) => ({
        name: key,
        dtype: tensor.dtype,
        shape: shapeOfSlices(tensor.slices),
        read: () => read(tensor),
        ...(options.requireFinite ? { check: describeCheck(tensor, options.iteration) } : {}),
      })),
      // The metadata make a shard readable without the manifest; Hugging Face's libraries require `format:
      // 'pt'`.
      metadata: { format: 'pt', slices: JSON.stringify(Object.fromEntries(slices)) },
      fileSystem,
    });
    shards.push({
      file,
      bytes: written.bytes,
      headerBytes: written.headerBytes,
      headerCrc32: written.headerChecksums,
    });
    for (const { key, tensor } of group) {
      const { name, dtype, globalShape } = tensor;
      const piece = {
        shard: index,
        key,
        slices: storedSlices(tensor.slices),
        crc32: written.checksums.get(key)!,
      };
      const before = tensors.get(name)?.pieces ?? [];
      tensors.set(name, { name, dtype, globalShape: [...globalShape], pieces: [...before, piece] });
    }
  }
  const part: RankShards = { token, rank, shards, tensors: [...tensors.values()] };
  const partPath = join(path, partName(rank));
  await withIoErrors({ action: 'write', path: partPath }, () =>
    writeDurably({ path: partPath, text: JSON.stringify(part), fileSystem }),
  );
  return part;
}

import { join } from 'node:path';
import { UsageError } from '@mtl/errors';
import { type FileSystem, nodeFileSystem } from './file-system.js';
import { inAlignedOrder } from './in-aligned-order.js';
import { withIoErrors } from './io-error.js';
import { safetensorsIndexName, safetensorsSingleName } from './safetensors-directory.js';
import { bytesOfDeclaration } from './safetensors-header.js';
import { SafetensorsWriter, type WrittenTensor } from './safetensors-writer.js';
import { writeDurably } from './write-durably.js';

/**
 * A tensor to write: its bytes are asked for when its turn comes, and must stay as they are until the next
 * turn.
 */
export interface TensorSource extends WrittenTensor {
  read(): Uint8Array | Promise<Uint8Array>;
}

/** The text of a `model.safetensors.index.json`. */
export function encodeSafetensorsIndex(options: {
  readonly totalBytes: number;
  readonly fileOf: ReadonlyMap<string, string>;
}): string {
  const weightMap = Object.fromEntries([...options.fileOf].sort(([a], [b]) => (a < b ? -1 : 1)));
  return `${JSON.stringify({ metadata: { total_size: options.totalBytes }, weight_map: weightMap }, null, 2)}\n`;
}

/** Splits a list into consecutive groups of at most `maxBytes` (a tensor is never split). */
export function groupByBytes<Item>(
  items: readonly Item[],
  options: { readonly maxBytes: number; readonly bytesOf: (item: Item) => number },
): Item[][] {
  const groups: Item[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const size = options.bytesOf(item);
    if (bytes + size > options.maxBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)!.push(item);
    bytes += size;
  }
  return groups;
}

/**
 * Writes a model as Hugging Face's libraries read it: `model.safetensors`, or, when that would exceed
 * `maxShardBytes`, `model-00001-of-0000N.safetensors` and an index. The directory must exist. Memory: one
 * tensor.
 *
 * @param options.maxShardBytes 5 GB by default, as there
 * @throws CheckpointError MTL_SAFETENSORS_DECLARATION, MTL_CHECKPOINT_DISK_FULL, _DENIED, _IO
 * @throws UsageError MTL_SAFETENSORS_ORDER when a tensor's bytes are not as many as declared,
 *   MTL_SAFETENSORS_NAME_TWICE
 */
export async function writeSafetensorsDirectory(options: {
  readonly directory: string;
  readonly tensors: readonly TensorSource[];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly maxShardBytes?: number;
  readonly fileSystem?: FileSystem;
}): Promise<{ readonly files: readonly string[]; readonly totalBytes: number }> {
  const { directory, metadata = { format: 'pt' }, fileSystem = nodeFileSystem } = options;
  const names = new Set<string>();
  for (const { name } of options.tensors) {
    if (names.has(name)) {
      throw new UsageError('MTL_SAFETENSORS_NAME_TWICE', `two tensors are named ${JSON.stringify(name)}`);
    }
    names.add(name);
  }
  const groups = groupByBytes(inAlignedOrder(options.tensors), {
    maxBytes: options.maxShardBytes ?? 5_000_000_000,
    bytesOf: bytesOfDeclaration,
  });
  if (groups.length === 0) groups.push([]);
  const digits = (value: number): string => String(value).padStart(5, '0');
  const fileOf = new Map<string, string>();
  const files: string[] = [];
  let totalBytes = 0;
  for (const [index, group] of groups.entries()) {
    const file =
      groups.length === 1
        ? safetensorsSingleName
        : `model-${digits(index + 1)}-of-${digits(groups.length)}.safetensors`;
    files.push(file);
    await writeSafetensorsFile({ path: join(directory, file), tensors: group, metadata, fileSystem });
    for (const tensor of group) {
      fileOf.set(tensor.name, file);
      totalBytes += bytesOfDeclaration(tensor);
    }
  }
  if (groups.length > 1) {
    const path = join(directory, safetensorsIndexName);
    await withIoErrors({ action: 'write', path }, () =>
      writeDurably({ path, text: encodeSafetensorsIndex({ totalBytes, fileOf }), fileSystem }),
    );
  }
  return { files, totalBytes };
}

/** Writes one safetensors file from sources, in the order given; on an error nothing is left behind. */
export async function writeSafetensorsFile(options: {
  readonly path: string;
  readonly tensors: readonly TensorSource[];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly fileSystem?: FileSystem;
}): ReturnType<SafetensorsWriter['finish']> {
  const writer = await SafetensorsWriter.create(options);
  try {
    for (const tensor of options.tensors) {
      const bytes = await tensor.read();
      const declared = bytesOfDeclaration(tensor);
      if (bytes.length !== declared) {
        throw new UsageError(
          'MTL_SAFETENSORS_ORDER',
          `read() of tensor ${JSON.stringify(tensor.name)} gave ${bytes.length} bytes`,
          { expected: `${declared}: ${tensor.dtype} of shape [${tensor.shape.join(', ')}]` },
        );
      }
      await writer.write(tensor.name, bytes);
    }
    return await writer.finish();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

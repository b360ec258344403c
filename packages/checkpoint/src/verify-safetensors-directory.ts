import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { ioError } from './io-error.js';
import {
  SafetensorsDirectory,
  safetensorsIndexName,
  safetensorsSingleName,
} from './safetensors-directory.js';

const shardPattern = /^model-\d+-of-\d+\.safetensors$/;

/**
 * Checks a directory of safetensors as Hugging Face publishes models, as far as the format allows (it has no
 * checksums): every shard is there and valid, every tensor is in the shard that the index names and in no
 * other, no shard is left out, no `model.safetensors` would be read
 * instead of them, and `total_size` is the bytes of all tensors. With `requireFinite` all values
 * are read.
 * Memory: the largest tensor.
 *
 * @returns bytes of all tensors
 * @throws CheckpointError MTL_SAFETENSORS_INDEX, MTL_SAFETENSORS_INVALID, MTL_SAFETENSORS_NONE,
 *   MTL_NOT_FINITE, MTL_CHECKPOINT_IO
 */
export async function verifySafetensorsDirectory(
  path: string,
  { requireFinite = false }: { readonly requireFinite?: boolean } = {},
): Promise<number> {
  await using directory = await SafetensorsDirectory.open(path, { prefersIndex: true });
  const { tensors, unlisted, totalSize, fileNames } = directory;
  const fail = (problem: string, expected?: string): never => {
    throw new CheckpointError('MTL_SAFETENSORS_INDEX', `${join(path, safetensorsIndexName)}: ${problem}`, {
      ...(expected === undefined ? {} : { expected }),
      remedy: 'copy or download the directory again, index and all shards together',
      details: { path },
    });
  };
  if (unlisted.length > 0) {
    fail(`${unlisted.length} tensors of its shards are not in it, such as ${JSON.stringify(unlisted[0])}`);
  }
  const names = await readdir(path).catch((error: unknown) => {
    throw ioError(error, { action: 'list', path });
  });
  const isWeights = (name: string): boolean => shardPattern.test(name) || name === safetensorsSingleName;
  const leftOut = names.find((name) => isWeights(name) && !fileNames.includes(name));
  if (leftOut !== undefined) fail(`${leftOut} is not in it`);
  let bytes = 0;
  for (const entry of tensors.values()) bytes += entry.bytes;
  if (totalSize !== undefined && totalSize !== bytes) {
    fail(
      `its total_size is ${JSON.stringify(totalSize)}`,
      `${bytes}, the bytes of its ${tensors.size} tensors`,
    );
  }
  if (!requireFinite) return bytes;
  let largest = 0;
  for (const entry of tensors.values()) largest = Math.max(largest, entry.bytes);
  const memory = new Uint8Array(largest);
  for (const { name, bytes: length } of tensors.values()) {
    await directory.read({ name, target: memory.subarray(0, length), requireFinite });
  }
  return bytes;
}

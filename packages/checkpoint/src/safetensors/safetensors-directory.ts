import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CheckpointError, MtlError, nearestName } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import { readRegularFile } from '../files/file-system.js';
import { ioError, systemCode } from '../files/io-error.js';
import { SafetensorsFile } from './safetensors-file.js';
import type { SafetensorsEntry } from './safetensors-header.js';

/** The file names that Hugging Face's libraries look for. */
export const safetensorsIndexName = 'model.safetensors.index.json';
export const safetensorsSingleName = 'model.safetensors';
/**
 * The maximum size of an index, in bytes. It equals the maximum for a header, because an index also has one
 * entry per tensor.
 */
const maxIndexBytes = 100_000_000;

function invalid(path: string, problem: string): MtlError {
  return new CheckpointError('MTL_SAFETENSORS_INDEX', `${path}: ${problem}`, {
    remedy: 'copy or download the directory again, index and all shards together',
    details: { path },
    exitCode: 2,
  });
}

interface Index {
  /** Maps tensor names to file names. */
  readonly weightMap: ReadonlyMap<string, string>;
  /** The value of `metadata.total_size` in the index; undefined if the index lacks it. */
  readonly totalSize: unknown;
}

function parseIndex(path: string, text: string): Index {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw invalid(path, `it is not JSON (${(error as Error).message})`);
  }
  const { weight_map: map, metadata } = (parsed ?? {}) as { weight_map?: unknown; metadata?: unknown };
  if (typeof map !== 'object' || map === null || Array.isArray(map))
    throw invalid(path, 'it has no weight_map');
  const weightMap = new Map<string, string>();
  for (const [name, file] of Object.entries(map)) {
    // a shard must be in the directory of its index; otherwise a manipulated index could make the program
    // read any file of the user
    if (typeof file !== 'string' || file === '' || file !== basename(file) || /[\\\0]|^\.\.?$/.test(file)) {
      throw invalid(
        path,
        `${JSON.stringify(name)} is mapped to ${JSON.stringify(file)}, not a file next to it`,
      );
    }
    weightMap.set(name, file);
  }
  return { weightMap, totalSize: (metadata as { total_size?: unknown } | null | undefined)?.total_size };
}

/**
 * A directory of safetensors in Hugging Face's form for published models: a single `model.safetensors`, or
 * shards with `model.safetensors.index.json`. If both exist, the single file is read, as in the transformers
 * library. All files stay open until `close`.
 */
export class SafetensorsDirectory {
  readonly path: string;
  /** The tensors of all shards, by name. */
  readonly tensors: ReadonlyMap<string, SafetensorsEntry>;
  /** The names of tensors that are in a shard but not in the index. This object cannot read these tensors. */
  readonly unlisted: readonly string[];
  /** The total size of all tensors in bytes, if the index contains it. Readers do not rely on this value. */
  readonly totalSize: unknown;
  readonly #fileByName: ReadonlyMap<string, SafetensorsFile>;
  readonly #files: readonly SafetensorsFile[];

  private constructor({
    path,
    fileByName,
    files,
    totalSize,
  }: {
    path: string;
    fileByName: Map<string, SafetensorsFile>;
    files: readonly SafetensorsFile[];
    totalSize?: unknown;
  }) {
    this.path = path;
    this.totalSize = totalSize;
    this.#fileByName = fileByName;
    this.#files = files;
    this.tensors = new Map([...fileByName].map(([name, file]) => [name, file.entry(name)]));
    this.unlisted = files.flatMap((file) =>
      [...file.tensors.keys()].filter((name) => fileByName.get(name) !== file),
    );
  }

  /**
   * Opens the files of a directory. If `prefersIndex` is true (default: false), the shards are used if an
   * index exists.
   *
   * @throws CheckpointError MTL_SAFETENSORS_INDEX if index and shards do not match, MTL_SAFETENSORS_INVALID
   *   for an invalid shard, MTL_SAFETENSORS_NONE if there is neither an index nor a model.safetensors,
   *   MTL_CHECKPOINT_IO
   */
  static async open(
    path: string,
    { prefersIndex = false }: { readonly prefersIndex?: boolean } = {},
  ): Promise<SafetensorsDirectory> {
    const indexPath = join(path, safetensorsIndexName);
    const files = new Map<string, SafetensorsFile>();
    try {
      const names = await readdir(path);
      const hasIndex = names.includes(safetensorsIndexName);
      const fileByName = new Map<string, SafetensorsFile>();
      if (!hasIndex || (names.includes(safetensorsSingleName) && !prefersIndex)) {
        const single = await openSingle(path, names);
        files.set(safetensorsSingleName, single);
        for (const name of single.tensors.keys()) fileByName.set(name, single);
        return new SafetensorsDirectory({ path, fileByName, files: [single] });
      }
      const text = await readRegularFile(indexPath, { maxBytes: maxIndexBytes });
      const { weightMap, totalSize } = parseIndex(indexPath, text);
      for (const [name, fileName] of weightMap) {
        let file = files.get(fileName);
        if (file === undefined) {
          file = await openShard(join(path, fileName), indexPath);
          files.set(fileName, file);
        }
        if (!file.tensors.has(name)) {
          throw invalid(indexPath, `it says that ${JSON.stringify(name)} is in ${fileName}, and it is not`);
        }
        fileByName.set(name, file);
      }
      return new SafetensorsDirectory({ path, fileByName, files: [...files.values()], totalSize });
    } catch (error) {
      await Promise.allSettled([...files.values()].map((file) => file.close()));
      throw ioError(error, { action: 'read', path });
    }
  }

  /** The names of the open safetensors files. */
  get fileNames(): readonly string[] {
    return this.#files.map((file) => basename(file.path));
  }

  /** True because `read` accepts a range of values. */
  readonly readsRanges = true;

  /**
   * Reads a tensor, a box of it, or a range of its values. Options and errors are the same as for {@link
   * SafetensorsFile.read}.
   */
  async read(options: {
    readonly name: string;
    readonly slices?: readonly Slice[];
    readonly range?: Slice;
    readonly target?: Uint8Array;
    readonly requireFinite?: boolean;
  }): Promise<Uint8Array> {
    const file = this.#fileByName.get(options.name);
    if (file !== undefined) return await file.read(options);
    const nearest = nearestName(options.name, this.tensors.keys());
    throw new CheckpointError(
      'MTL_SAFETENSORS_NAME',
      `${this.path} has no tensor ${JSON.stringify(options.name)}`,
      {
        expected: nearest === undefined ? `one of its ${this.tensors.size} names` : JSON.stringify(nearest),
      },
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.#files.map((file) => file.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Opens a shard that an index names. */
async function openShard(path: string, indexPath: string): Promise<SafetensorsFile> {
  try {
    return await SafetensorsFile.open(path);
  } catch (error) {
    if (!MtlError.isInstance(error) || systemCode(error.cause) !== 'ENOENT') throw error;
    throw invalid(indexPath, `${basename(path)}, which it names, is missing`);
  }
}

async function openSingle(path: string, names: readonly string[]): Promise<SafetensorsFile> {
  if (names.includes(safetensorsSingleName)) {
    return await SafetensorsFile.open(join(path, safetensorsSingleName));
  }
  const ofPytorch = names.find((name) => /^pytorch_model.*\.(bin|bin\.index\.json)$/.test(name));
  throw new CheckpointError('MTL_SAFETENSORS_NONE', `${path} holds no safetensors model`, {
    expected: `${safetensorsIndexName} or ${safetensorsSingleName}`,
    remedy:
      ofPytorch === undefined
        ? `pass the directory of the model; this one holds: ${names.slice(0, 8).join(', ') || 'nothing'}`
        : `convert ${ofPytorch} with the transformers library: AutoModelForCausalLM.from_pretrained('${path}').save_pretrained('NEW_DIR') writes model.safetensors (of a BERT AutoModelForPreTraining does); copy the tokenizer's files there`,
    exitCode: 2,
  });
}

const shardPattern = /^model-\d+-of-\d+\.safetensors$/;

/**
 * Checks a directory of safetensors in Hugging Face's form for published models. The format has no checksums.
 * The checks are:
 * - every shard exists and is valid
 * - every tensor is only in the shard that the index names
 * - every shard is listed in the index
 * - there is no `model.safetensors`, which would be read instead of the shards
 * - `total_size` is the number of bytes in all tensors
 *
 * If `requireFinite` is true, all values are read and must be finite. This needs memory for the largest
 * tensor.
 *
 * @returns the number of bytes in all tensors
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

import { MtlError } from '@mtl/errors';
import { dtypeBytes } from '../tensors/dtype.js';
import { type FileRange, torchFileInvalid } from './file-range.js';
import { readPickles } from './read-pickle.js';
import { maxPickleBytes, StorageReference, torchPickleOptions } from './torch-pickle.js';
import type { StoredStorage, TorchFileContents } from './torch-tensor.js';

/**
 * The pickled magic number at the start of files that torch.save wrote before version 1.6 (`MAGIC_NUMBER` in
 * torch/serialization.py).
 */
const magic = Buffer.from('80028a0a6cfc9c46f9206aa850192e', 'hex');
/**
 * The number of pickles in a file: magic number, format version, properties of the machine, content, keys of
 * storages.
 */
const numPickles = 5;
const version = 1001;

/** Returns true if a version of torch.save before 1.6 wrote the file. */
export async function beginsSequentialFile(range: FileRange): Promise<boolean> {
  return range.length >= magic.length && (await range.read(0, magic.length)).equals(magic);
}

/**
 * Reads the structure of a file that torch.save wrote before version 1.6: pickles, then the number of
 * elements and the bytes of each storage.
 *
 * @throws CheckpointError MTL_TORCH_FILE_INVALID
 */
export async function readSequentialFile(range: FileRange): Promise<TorchFileContents> {
  const { path } = range;
  const { values, end, storages } = await readStructure(range);
  const [, format, machine, content, keys] = values;
  if (format !== version) {
    throw torchFileInvalid(path, `it has the version ${String(format)} of its format`, {
      expected: `${version}`,
    });
  }
  if (!(machine instanceof Map) || machine.get('little_endian') !== true) {
    throw torchFileInvalid(path, 'its numbers are not little-endian', {
      expected: 'a file that was saved on a little-endian machine',
    });
  }
  if (!Array.isArray(keys)) throw torchFileInvalid(path, 'it lists no storages');
  const stored = await findPlaces({ range, keys: keys as readonly unknown[], storages, first: end });
  return {
    content,
    find: async ({ key }) => {
      const place = stored.get(key);
      if (place !== undefined) return place;
      throw torchFileInvalid(path, `storage ${key}, which a tensor refers to, is missing`);
    },
  };
}

type Storages = ReadonlyMap<string, StorageReference>;

/** Reads the pickles. Their length is unknown, so more bytes are read until the pickles are complete. */
async function readStructure(range: FileRange) {
  const { path } = range;
  for (let length = 1 << 20; ; length *= 4) {
    const bytes = await range.read(0, Math.min(length, range.length, maxPickleBytes));
    const storages = new Map<string, StorageReference>();
    const options = torchPickleOptions(path);
    const persistent = (identifier: unknown): unknown => {
      const reference = options.persistent(identifier);
      // the size of every storage is needed to find the next storage
      if (!(reference instanceof StorageReference))
        throw options.invalid('it has storages of an unknown data type');
      const [, , , , , view] = identifier as readonly unknown[];
      if (view !== undefined && view !== null) throw options.invalid('it has storages inside of others');
      const known = storages.get(reference.storage.key);
      if (known !== undefined) return known;
      storages.set(reference.storage.key, reference);
      return reference;
    };
    try {
      return {
        ...readPickles(bytes, { ...options, persistent, count: numPickles }),
        storages: storages as Storages,
      };
    } catch (error) {
      const isAll = bytes.length === range.length || bytes.length === maxPickleBytes;
      if (isAll || !MtlError.isInstance(error)) throw error;
    }
  }
}

/** Returns the position of the bytes of each storage. The storages are in the order of the keys. */
async function findPlaces(options: {
  readonly range: FileRange;
  readonly keys: readonly unknown[];
  readonly storages: Storages;
  readonly first: number;
}): Promise<ReadonlyMap<string, StoredStorage>> {
  const { range, keys, storages, first } = options;
  const places = new Map<string, StoredStorage>();
  let position = first;
  for (const key of keys) {
    const reference = storages.get(String(key));
    if (reference === undefined)
      throw torchFileInvalid(range.path, `no tensor refers to storage ${String(key)}`);
    const { numElements, dtype } = reference.storage;
    const count = Number((await range.read(position, 8)).readBigInt64LE());
    if (count !== numElements) {
      throw torchFileInvalid(
        range.path,
        `storage ${String(key)} has ${count} elements, and ${numElements} are declared`,
      );
    }
    const bytes = numElements * dtypeBytes[dtype];
    range.part(position + 8, bytes);
    places.set(String(key), { start: position + 8, bytes });
    position += 8 + bytes;
  }
  return places;
}

import { basename, join } from 'node:path';
import { CheckpointError, nearestName, UsageError } from '@mtl/errors';
import {
  coverDefect,
  type Dtype,
  formatSlices,
  intersectSlices,
  type Slice,
  shapeDefect,
  shapeOfSlices,
  slicesDefect,
  volumeOfShape,
  wholeSlices,
} from '@mtl/layout';
import { openRegularFile } from '../files/file-system.js';
import { ioError } from '../files/io-error.js';
import { RunReader } from '../files/run-reader.js';
import { planRuns } from '../tensors/box-runs.js';
import { dtypeBytes } from '../tensors/dtype.js';
import { FileRange, torchFileInvalid } from './file-range.js';
import { PickledObject } from './read-pickle.js';
import { TorchFile } from './torch-file.js';
import { readTorchPickle, torchDtype } from './torch-pickle.js';
import { TorchTensor } from './torch-tensor.js';

export const distributedMetadataName = '.metadata';
/** The maximum size of the metadata, in bytes. They take a few hundred bytes for each box of a tensor. */
const maxMetadataBytes = 1 << 28;

/**
 * A checkpoint that torch.distributed.checkpoint wrote: `.metadata` and data files. Every item of a data file
 * is a file that torch.save wrote. Tensors are read completely or by boxes, regardless of how many processes
 * saved them. No code in the pickles is executed.
 */
export class DistributedTorchDirectory {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, DistributedTensor>;
  /** Items that are not tensors, keyed by name. `readObject` reads them. */
  readonly objects: ReadonlyMap<string, StoredItem>;
  /** A cache of the values' locations in the files, keyed by item. */
  readonly #located = new Map<StoredItem, { readonly offset: number; readonly bytes: number }>();

  private constructor(path: string, { tensors, objects }: DistributedMetadata) {
    this.path = path;
    this.tensors = tensors;
    this.objects = objects;
  }

  /**
   * Opens a checkpoint: reads its metadata, and checks that its files contain all items.
   *
   * @throws CheckpointError MTL_TORCH_FILE_INVALID if the metadata violate the format
   * @throws CheckpointError MTL_CHECKPOINT_IO or MTL_CHECKPOINT_DENIED if the metadata cannot be read
   */
  static async open(path: string): Promise<DistributedTorchDirectory> {
    const file = join(path, distributedMetadataName);
    const bytes = await withRange(file, async (range) => {
      if (range.length > maxMetadataBytes) throw torchFileInvalid(file, `it has ${range.length} bytes`);
      return await range.read(0, range.length);
    });
    const metadata = parseDistributedMetadata(readTorchPickle(bytes, file), file);
    await checkFiles(path, metadata);
    return new DistributedTorchDirectory(path, metadata);
  }

  /**
   * Reads a tensor or a box of it.
   *
   * @param options.slices a range [start, end) for each dimension. Default: the complete tensor
   * @param options.target memory with exactly the size of the box. Default: newly allocated
   * @throws CheckpointError MTL_TORCH_FILE_INVALID, MTL_CHECKPOINT_*; UsageError MTL_TORCH_FILE_TARGET
   */
  async read(options: {
    readonly name: string;
    readonly slices?: readonly Slice[];
    readonly target?: Uint8Array;
  }): Promise<Uint8Array> {
    const tensor = this.#tensor(options.name);
    const { dtype, shape } = tensor;
    if (dtype === undefined) {
      throw torchFileInvalid(this.path, `${tensor.name} is ${tensor.torchDtype}`, {
        expected: 'a dtype of safetensors, such as torch.float32 or torch.bfloat16',
      });
    }
    const slices = options.slices ?? wholeSlices(shape);
    const defect = slicesDefect(slices, shape);
    if (defect !== undefined) {
      throw torchFileInvalid(this.path, `${formatSlices(slices)} of ${tensor.name}: ${defect}`);
    }
    const elementBytes = dtypeBytes[dtype];
    const bytes = volumeOfShape(shapeOfSlices(slices)) * elementBytes;
    const target = options.target ?? new Uint8Array(bytes);
    if (target.length !== bytes) {
      const what = `the target of ${tensor.name}${formatSlices(slices)} has ${target.length} bytes`;
      throw new UsageError('MTL_TORCH_FILE_TARGET', what, { expected: `${bytes}` });
    }
    for (const chunk of tensor.chunks) {
      const common = intersectSlices(chunk.slices, slices);
      if (common === undefined) continue;
      const path = join(this.path, chunk.item.file);
      await withRange(path, async (range) => {
        const { offset, bytes } = await this.#locate(range, { tensor, chunk });
        await new RunReader().read({
          source: { handle: range.handle, path, name: tensor.name, offset, bytes },
          plan: planRuns({ source: chunk.slices, target: slices, common, elementBytes }),
          target,
        });
      });
    }
    return target;
  }

  /** Reads an item that is not a tensor, as data. The name must be in `objects`. */
  async readObject(name: string): Promise<unknown> {
    const item = this.objects.get(name);
    if (item === undefined) throw torchFileInvalid(this.path, `it has no object ${name}`);
    return await withRange(join(this.path, item.file), async (range) => {
      const { content } = await TorchFile.read(range.part(item.offset, item.length));
      return content;
    });
  }

  #tensor(name: string): DistributedTensor {
    const tensor = this.tensors.get(name);
    if (tensor !== undefined) return tensor;
    const nearest = nearestName(name, this.tensors.keys());
    throw new CheckpointError(
      'MTL_TORCH_FILE_INVALID',
      `${this.path} has no tensor ${JSON.stringify(name)}`,
      {
        expected: nearest === undefined ? `one of its ${this.tensors.size} names` : JSON.stringify(nearest),
        exitCode: 2,
      },
    );
  }

  /** Returns the offset of a chunk's values in its file. */
  async #locate(
    range: FileRange,
    { tensor, chunk }: { readonly tensor: DistributedTensor; readonly chunk: StoredChunk },
  ): Promise<{ readonly offset: number; readonly bytes: number }> {
    const { item, slices } = chunk;
    const known = this.#located.get(item);
    if (known !== undefined) return known;
    const file = await TorchFile.read(range.part(item.offset, item.length));
    const { content } = file;
    const shape = shapeOfSlices(slices);
    const isIt =
      content instanceof TorchTensor &&
      content.dtype === tensor.dtype &&
      content.shape.join() === shape.join();
    if (!isIt || !content.isContiguous) {
      const [found, expected] = [content, { dtype: tensor.dtype, shape }].map((value) => {
        const { dtype, shape: sizes } = value as Partial<TorchTensor>;
        return sizes === undefined ? 'no tensor' : `${dtype} [${sizes.join(', ')}]`;
      });
      const problem = isIt ? 'is not stored row-major' : `is stored as ${found}`;
      throw torchFileInvalid(range.path, `${tensor.name}${formatSlices(slices)} ${problem}`, {
        expected: `${expected}, contiguous`,
      });
    }
    const located = await file.locate(content);
    this.#located.set(item, located);
    return located;
  }
}

/** Checks that every item is within its file, before memory of the item's size is allocated. */
async function checkFiles(path: string, { tensors, objects }: DistributedMetadata): Promise<void> {
  const chunks = [...tensors.values()].flatMap((tensor) => tensor.chunks.map(({ item }) => item));
  const ends = new Map<string, number>();
  for (const { file, offset, length } of [...chunks, ...objects.values()]) {
    ends.set(file, Math.max(ends.get(file) ?? 0, offset + length));
  }
  for (const [file, end] of ends) {
    await withRange(join(path, file), async (range) => void range.part(0, end));
  }
}

/** Runs `body` with an open file, and closes the file afterwards. */
async function withRange<Result>(path: string, body: (range: FileRange) => Promise<Result>): Promise<Result> {
  try {
    await using handle = await openRegularFile(path);
    const { size } = await handle.stat();
    return await body(new FileRange({ handle, path, start: 0, length: size }));
  } catch (error) {
    throw ioError(error, { action: 'read', path, exitCode: 2 });
  }
}

/** An item of a data file. The item is itself a file that torch.save wrote. */
interface StoredItem {
  readonly file: string;
  readonly offset: number;
  readonly length: number;
}

/** A box of a tensor, and its location in the files. */
interface StoredChunk {
  readonly slices: readonly Slice[];
  readonly item: StoredItem;
}

/** A tensor of a distributed checkpoint, with all its chunks. */
interface DistributedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** Undefined for a dtype that cannot be read. */
  readonly dtype: Dtype | undefined;
  /** PyTorch's name of the dtype. */
  readonly torchDtype: string;
  readonly chunks: readonly StoredChunk[];
}

/** The metadata of a distributed checkpoint: its items, and where they are in the files. */
interface DistributedMetadata {
  readonly tensors: ReadonlyMap<string, DistributedTensor>;
  /** Items that are not tensors, by name. */
  readonly objects: ReadonlyMap<string, StoredItem>;
}

const classes = 'torch.distributed.checkpoint.metadata.';

/**
 * Parses the pickle in the `.metadata` file that torch.distributed.checkpoint wrote. Checks sizes, boxes and
 * files, and that the boxes of each tensor cover the tensor.
 *
 * @throws CheckpointError MTL_TORCH_FILE_INVALID
 */
function parseDistributedMetadata(content: unknown, path: string): DistributedMetadata {
  const invalid = (problem: string) => torchFileInvalid(path, problem);
  if (!(content instanceof PickledObject) || content.path !== `${classes}Metadata`) {
    throw invalid('it is not the metadata of torch.distributed.checkpoint');
  }
  const items = storedItems(content.attribute('storage_data'), path);
  const described = content.attribute('state_dict_metadata');
  if (!(described instanceof Map)) throw invalid('it lists no tensors');
  const tensors = new Map<string, DistributedTensor>();
  const objects = new Map<string, StoredItem>();
  for (const [name, value] of described as ReadonlyMap<unknown, unknown>) {
    if (typeof name !== 'string' || !(value instanceof PickledObject))
      throw invalid('it lists what has no name');
    if (value.path === `${classes}TensorStorageMetadata`) {
      tensors.set(name, parseTensor({ name, value, items }, path));
    } else {
      const item = items.get(joinKey(name, undefined));
      if (item !== undefined) objects.set(name, item);
    }
  }
  return { tensors, objects };
}

/** Joins a name and an offset into a key. */
const joinKey = (name: string, offsets: readonly number[] | undefined): string =>
  JSON.stringify([name, offsets ?? null]);

const isCounts = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && (size as number) >= 0);

function storedItems(storage: unknown, path: string): ReadonlyMap<string, StoredItem> {
  if (!(storage instanceof Map)) throw torchFileInvalid(path, 'it lists no storage');
  const items = new Map<string, StoredItem>();
  for (const [index, info] of storage as ReadonlyMap<unknown, unknown>) {
    const isItem = index instanceof PickledObject && info instanceof PickledObject;
    const name = isItem ? index.attribute('fqn') : undefined;
    const offsets = isItem ? (index.attribute('offset') ?? undefined) : undefined;
    if (!isItem || typeof name !== 'string' || !(offsets === undefined || isCounts(offsets))) {
      throw torchFileInvalid(path, 'its list of storage is damaged');
    }
    const [file, offset, length] = ['relative_path', 'offset', 'length'].map((key) => info.attribute(key));
    // the file of an item must be in the directory of the metadata; otherwise a manipulated checkpoint could
    // make the program read any file of the user
    if (typeof file !== 'string' || file !== basename(file) || /^\.{0,2}$|[\\\0]/.test(file)) {
      throw torchFileInvalid(
        path,
        `${name} is stored in ${JSON.stringify(file)}, which is no file next to it`,
      );
    }
    if (!isCounts([offset, length])) throw torchFileInvalid(path, `${name} is stored at no place`);
    const transforms = info.attribute('transform_descriptors') ?? [];
    if (!Array.isArray(transforms) || transforms.length > 0) {
      throw torchFileInvalid(path, `${name} is stored compressed or encrypted`, {
        expected: 'a checkpoint that was saved without storage extensions',
      });
    }
    items.set(joinKey(name, offsets), { file, offset: offset as number, length: length as number });
  }
  return items;
}

function parseTensor(
  options: {
    readonly name: string;
    readonly value: PickledObject;
    readonly items: ReadonlyMap<string, StoredItem>;
  },
  path: string,
): DistributedTensor {
  const { name, value, items } = options;
  const invalid = (problem: string) => torchFileInvalid(path, `${name}: ${problem}`);
  const shape = value.attribute('size');
  if (!isCounts(shape)) throw invalid('it has no shape');
  const defect = shapeDefect(shape);
  if (defect !== undefined) throw invalid(defect);
  const chunks = value.attribute('chunks');
  if (!Array.isArray(chunks)) throw invalid('it has no chunks');
  const stored = (chunks as unknown[]).map((chunk) => {
    const [offsets, sizes] = ['offsets', 'sizes'].map((key) =>
      chunk instanceof PickledObject ? chunk.attribute(key) : undefined,
    );
    if (!isCounts(offsets) || !isCounts(sizes) || offsets.length !== sizes.length)
      throw invalid('a chunk is no box');
    const slices = offsets.map((start, dim) => ({ start, end: start + sizes[dim]! }));
    const outside = slicesDefect(slices, shape);
    if (outside !== undefined) throw invalid(outside);
    const item = items.get(joinKey(name, offsets)) ?? items.get(joinKey(name, undefined));
    if (item === undefined) throw invalid(`its chunk at [${offsets.join(', ')}] is not stored`);
    return { slices, item };
  });
  const gap = coverDefect(
    shape,
    stored.map(({ slices }) => slices),
  );
  if (gap !== undefined) throw invalid(gap);
  // the state is a tuple of dtype, layout, requires_grad, memory format and pinned
  const properties = value.attribute('properties');
  const state = properties instanceof PickledObject ? properties.state : undefined;
  const type = Array.isArray(state)
    ? (state as unknown[])[0]
    : state instanceof Map
      ? state.get('dtype')
      : undefined;
  const dtype = torchDtype(type);
  const bytes = [...new Set(stored.map(({ item }) => item))].reduce((sum, { length }) => sum + length, 0);
  // items are not compressed, so a tensor takes at least its own bytes
  if (dtype !== undefined && volumeOfShape(shape) * dtypeBytes[dtype] > bytes) {
    throw invalid(`its shape [${shape.join(', ')}] has more bytes than are stored`);
  }
  return {
    name,
    shape,
    dtype,
    torchDtype: String((type as { path?: string } | undefined)?.path),
    chunks: stored,
  };
}

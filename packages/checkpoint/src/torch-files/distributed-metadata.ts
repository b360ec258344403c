import { basename } from 'node:path';
import type { Slice } from '@mtl/kernels';
import { shapeDefect, slicesDefect, volumeOfShape } from '../boxes.js';
import { coverDefect } from '../cover-defect.js';
import { type Dtype, dtypeBytes } from '../dtype.js';
import { PickledObject } from './pickled-object.js';
import { torchDtype } from './torch-constructors.js';
import { torchFileInvalid } from './torch-file-invalid.js';

/** An item of a data file: a file of torch.save inside of it. */
export interface StoredItem {
  readonly file: string;
  readonly offset: number;
  readonly length: number;
}

/** A box of a tensor, and where it is stored. */
export interface StoredChunk {
  readonly slices: readonly Slice[];
  readonly item: StoredItem;
}

/** A tensor of a distributed checkpoint, whole. */
export interface DistributedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** Undefined for one that cannot be read. */
  readonly dtype: Dtype | undefined;
  /** What PyTorch calls the dtype. */
  readonly torchDtype: string;
  readonly chunks: readonly StoredChunk[];
}

/** The table of contents of a distributed checkpoint. */
export interface DistributedMetadata {
  readonly tensors: ReadonlyMap<string, DistributedTensor>;
  /** What is no tensor, by name. */
  readonly objects: ReadonlyMap<string, StoredItem>;
}

const classes = 'torch.distributed.checkpoint.metadata.';

/**
 * What the `.metadata` of torch.distributed.checkpoint states, from its pickle: sizes, boxes and files are
 * checked; every tensor is covered by its boxes.
 *
 * @throws CheckpointError MTL_TORCH_FILE_INVALID
 */
export function parseDistributedMetadata(content: unknown, path: string): DistributedMetadata {
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
      const item = items.get(keyOf(name, undefined));
      if (item !== undefined) objects.set(name, item);
    }
  }
  return { tensors, objects };
}

/** A name and an offset as one key. */
const keyOf = (name: string, offsets: readonly number[] | undefined): string =>
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
    // an item is in a file next to it: anything else could read other files of the user's
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
    items.set(keyOf(name, offsets), { file, offset: offset as number, length: length as number });
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
    const item = items.get(keyOf(name, offsets)) ?? items.get(keyOf(name, undefined));
    if (item === undefined) throw invalid(`its chunk at [${offsets.join(', ')}] is not stored`);
    return { slices, item };
  });
  const gap = coverDefect(
    shape,
    stored.map(({ slices }) => slices),
  );
  if (gap !== undefined) throw invalid(gap);
  // a tuple: dtype, layout, requires_grad, memory format, pinned
  const properties = value.attribute('properties');
  const state = properties instanceof PickledObject ? properties.state : undefined;
  const type = Array.isArray(state)
    ? (state as unknown[])[0]
    : state instanceof Map
      ? state.get('dtype')
      : undefined;
  const dtype = torchDtype(type);
  const bytes = [...new Set(stored.map(({ item }) => item))].reduce((sum, { length }) => sum + length, 0);
  // items are not compressed: a tensor takes at least its bytes
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

import { join } from 'node:path';
import { CheckpointError, nearestName, UsageError } from '@mtl/errors';
import type { Slice } from '@mtl/kernels';
import {
  formatSlices,
  intersectSlices,
  shapeOfSlices,
  slicesDefect,
  volumeOfShape,
  wholeSlices,
} from '../boxes.js';
import { dtypeBytes } from '../dtype.js';
import { ioError } from '../io-error.js';
import { openRegularFile } from '../open-regular-file.js';
import { planRuns } from '../run-plan.js';
import { RunReader } from '../run-reader.js';
import {
  type DistributedMetadata,
  type DistributedTensor,
  parseDistributedMetadata,
  type StoredChunk,
  type StoredItem,
} from './distributed-metadata.js';
import { FileRange } from './file-range.js';
import { readTorchPickle } from './read-torch-pickle.js';
import { TorchFile } from './torch-file.js';
import { torchFileInvalid } from './torch-file-invalid.js';
import { TorchTensor } from './torch-tensor.js';

export const distributedMetadataName = '.metadata';
/** Some hundred bytes for each box of a tensor. */
const maxMetadataBytes = 1 << 28;

/**
 * A checkpoint of torch.distributed.checkpoint: `.metadata` and data files, in which every item is a file of
 * torch.save. Tensors are read whole or by boxes, whatever number of processes saved them. Nothing of the
 * pickles is executed.
 */
export class DistributedTorchDirectory {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, DistributedTensor>;
  /** What is no tensor, by name; `readObject` reads it. */
  readonly objects: ReadonlyMap<string, StoredItem>;
  /** Where the values of items that were read before are. */
  readonly #located = new Map<StoredItem, { readonly offset: number; readonly bytes: number }>();

  private constructor(path: string, { tensors, objects }: DistributedMetadata) {
    this.path = path;
    this.tensors = tensors;
    this.objects = objects;
  }

  /**
   * @throws CheckpointError MTL_TORCH_FILE_INVALID when the metadata break the format
   * @throws CheckpointError MTL_CHECKPOINT_IO or MTL_CHECKPOINT_DENIED when they cannot be read
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
   * @param options.slices one [start, end) per dimension; the whole tensor by default
   * @param options.target memory for the row-major bytes of exactly that box; allocated by default
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

  /** What an object is, as data; the name is one of `objects`. */
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

  /** Where the values of a chunk are in its file. */
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

/** Every item must lie inside of its file, before memory of its size is taken. */
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

/** Opens a file for a while. */
async function withRange<Result>(path: string, body: (range: FileRange) => Promise<Result>): Promise<Result> {
  try {
    await using handle = await openRegularFile(path);
    const { size } = await handle.stat();
    return await body(new FileRange({ handle, path, start: 0, length: size }));
  } catch (error) {
    throw ioError(error, { action: 'read', path, exitCode: 2 });
  }
}

import { openRegularFile } from '../files/file-system.js';
import { ioError } from '../files/io-error.js';
import { dtypeBytes } from '../tensors/dtype.js';
import { FileRange, torchFileInvalid } from './file-range.js';
import { beginsSequentialFile, readSequentialFile } from './read-sequential-file.js';
import { readTorchZip } from './read-torch-zip.js';
import type { FindStorage, StoredStorage, TorchFileContents, TorchTensor } from './torch-tensor.js';

/**
 * A file that torch.save wrote. Since version 1.6, it is a zip file with a pickle and the bytes of the
 * tensors. Older files are a sequence of pickles and bytes. The pickle is read as data (Maps, arrays,
 * numbers, strings, {@link TorchTensor}), and no code in it is executed. Instances of unknown classes become
 * `PickledObject`s. The values of tensors are read only on request.
 */
export class TorchFile {
  readonly path: string;
  /** The value that was saved. */
  readonly content: unknown;
  readonly #range: FileRange;
  readonly #find: FindStorage;
  readonly #ownsHandle: boolean;

  private constructor(options: {
    readonly range: FileRange;
    readonly parts: TorchFileContents;
    readonly ownsHandle: boolean;
  }) {
    this.path = options.range.path;
    this.content = options.parts.content;
    this.#range = options.range;
    this.#find = options.parts.find;
    this.#ownsHandle = options.ownsHandle;
  }

  /**
   * Opens a file and reads its pickle.
   *
   * @throws CheckpointError MTL_TORCH_FILE_INVALID if the file violates the format
   * @throws CheckpointError MTL_CHECKPOINT_IO or MTL_CHECKPOINT_DENIED if the file cannot be read
   */
  static async open(path: string): Promise<TorchFile> {
    const handle = await openRegularFile(path).catch((error: unknown) => {
      throw ioError(error, { action: 'read', path, exitCode: 2 });
    });
    try {
      const { size } = await handle.stat();
      return await TorchFile.read(new FileRange({ handle, path, start: 0, length: size }), {
        ownsHandle: true,
      });
    } catch (error) {
      await handle.close();
      throw ioError(error, { action: 'read', path, exitCode: 2 });
    }
  }

  /** Reads a file that is an item of a larger file. The caller closes the larger file. */
  static async read(range: FileRange, { ownsHandle = false } = {}): Promise<TorchFile> {
    const isSequential = await beginsSequentialFile(range);
    const parts = await (isSequential ? readSequentialFile(range) : readTorchZip(range));
    return new TorchFile({ range, parts, ownsHandle });
  }

  /**
   * Checks that the file contains all elements of a tensor, before memory of the tensor's size is allocated.
   *
   * @throws CheckpointError MTL_TORCH_FILE_INVALID
   */
  async checkTensor(tensor: TorchTensor): Promise<void> {
    await this.#place(tensor);
  }

  /** Returns where the elements of a contiguous tensor are in the file. */
  async locate(tensor: TorchTensor): Promise<{ readonly offset: number; readonly bytes: number }> {
    const size = dtypeBytes[tensor.dtype];
    const { start } = await this.#place(tensor);
    return { offset: this.#range.start + start + tensor.offset * size, bytes: tensor.numElements * size };
  }

  /**
   * Reads a tensor.
   *
   * @returns the tensor's values, little-endian and row-major
   * @throws CheckpointError MTL_TORCH_FILE_INVALID if the file lacks the values or their checksum is wrong
   */
  async readTensor(tensor: TorchTensor): Promise<Uint8Array> {
    const size = dtypeBytes[tensor.dtype];
    // this check comes before the allocation, so that memory is allocated only for a size that the file
    // contains
    const { start, bytes, check } = await this.#place(tensor);
    const values = new Uint8Array(tensor.numElements * size);
    if (tensor.numElements === 0) return values;
    if (tensor.isContiguous) {
      await this.#range.readInto(values, start + tensor.offset * size);
      if (values.length === bytes) check?.(values);
      return values;
    }
    const last = tensor.shape.reduce((sum, length, dim) => sum + (length - 1) * tensor.strides[dim]!, 0);
    const span = await this.#range.read(start + tensor.offset * size, (last + 1) * size);
    gather({ target: values, span, tensor });
    return values;
  }

  async #place(tensor: TorchTensor): Promise<StoredStorage> {
    if (tensor.defect !== undefined) throw torchFileInvalid(this.path, tensor.defect);
    return await this.#find(tensor.storage);
  }

  async close(): Promise<void> {
    if (this.#ownsHandle) await this.#range.handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Copies the elements of a tensor in row-major order. `span` is the part of the storage that contains all
 * elements.
 */
function gather(options: {
  readonly target: Uint8Array;
  readonly span: Uint8Array;
  readonly tensor: TorchTensor;
}): void {
  const { target, span, tensor } = options;
  const size = dtypeBytes[tensor.dtype];
  const { shape, strides } = tensor;
  const index = shape.map(() => 0);
  let source = 0;
  for (let written = 0; written < target.length; written += size) {
    for (let byte = 0; byte < size; byte++) target[written + byte] = span[source * size + byte]!;
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      source += strides[dim]!;
      index[dim]!++;
      if (index[dim]! < shape[dim]!) break;
      source -= strides[dim]! * shape[dim]!;
      index[dim] = 0;
    }
  }
}

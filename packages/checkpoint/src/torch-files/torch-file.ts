import { dtypeBytes } from '../dtype.js';
import { ioError } from '../io-error.js';
import { openRegularFile } from '../open-regular-file.js';
import { FileRange } from './file-range.js';
import { readPickle } from './read-pickle.js';
import { storageOf, torchConstructors } from './torch-constructors.js';
import { torchFileInvalid } from './torch-file-invalid.js';
import type { TorchTensor } from './torch-tensor.js';
import { checkEntry, readZipEntries, startOfEntry, type ZipEntry } from './zip-entries.js';

/** The structure of a file takes some hundred bytes a tensor; what is larger is no checkpoint. */
const maxPickleBytes = 1 << 28;

/** Reads a pickle whose classes are PyTorch's, as data. */
export function readTorchPickle(bytes: Buffer, path: string): unknown {
  const invalid = (problem: string) => torchFileInvalid(path, problem);
  return readPickle(bytes, {
    constructors: torchConstructors(invalid),
    persistent: (identifier) => storageOf(identifier, invalid),
    invalid,
  });
}

/**
 * What torch.save wrote, version 1.6 and later: a zip file with a pickle and the bytes of the tensors. Of the
 * pickle nothing is executed: it is read as data (Maps, arrays, numbers, strings, {@link TorchTensor}), and
 * every class that is not known becomes a `PickledObject`. Values of tensors are read when asked for.
 */
export class TorchFile {
  readonly path: string;
  /** What was saved. */
  readonly content: unknown;
  readonly #range: FileRange;
  readonly #entries: ReadonlyMap<string, ZipEntry>;
  /** Of the names of all entries, with its slash. */
  readonly #folder: string;
  readonly #ownsHandle: boolean;

  private constructor(options: {
    readonly range: FileRange;
    readonly entries: ReadonlyMap<string, ZipEntry>;
    readonly folder: string;
    readonly content: unknown;
    readonly ownsHandle: boolean;
  }) {
    this.path = options.range.path;
    this.content = options.content;
    this.#range = options.range;
    this.#entries = options.entries;
    this.#folder = options.folder;
    this.#ownsHandle = options.ownsHandle;
  }

  /**
   * @throws CheckpointError MTL_TORCH_FILE_INVALID when it breaks the format, or is of PyTorch before 1.6
   * @throws CheckpointError MTL_CHECKPOINT_IO or MTL_CHECKPOINT_DENIED when it cannot be read
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

  /** A file inside of another one, which stays its caller's. */
  static async read(range: FileRange, { ownsHandle = false } = {}): Promise<TorchFile> {
    const { path } = range;
    const entries = await readZipEntries(range);
    const pickles = [...entries.keys()].filter((name) => /^[^/]+\/data\.pkl$/.test(name));
    const [name] = pickles;
    if (name === undefined || pickles.length > 1) {
      throw torchFileInvalid(path, `it is a zip file with ${pickles.length} entries data.pkl`, {
        expected: 'a file that torch.save wrote',
      });
    }
    const folder = name.slice(0, -'data.pkl'.length);
    const read = async (entry: ZipEntry, maxBytes: number): Promise<Buffer> => {
      if (entry.bytes > maxBytes) throw torchFileInvalid(path, `${entry.name} has ${entry.bytes} bytes`);
      const bytes = await range.read(await startOfEntry(range, entry), entry.bytes);
      checkEntry(entry, bytes, path);
      return bytes;
    };
    const order = entries.get(`${folder}byteorder`);
    if (order !== undefined && (await read(order, 64)).toString('latin1') !== 'little') {
      throw torchFileInvalid(path, 'its numbers are big-endian', {
        expected: 'a file that was saved on a little-endian machine',
      });
    }
    const content = readTorchPickle(await read(entries.get(name)!, maxPickleBytes), path);
    return new TorchFile({ range, entries, folder, content, ownsHandle });
  }

  /** Where the elements of a tensor that is contiguous lie in the file. */
  async locate(tensor: TorchTensor): Promise<{ readonly offset: number; readonly bytes: number }> {
    const size = dtypeBytes[tensor.dtype];
    const storage = await startOfEntry(this.#range, this.#entryOf(tensor));
    return { offset: this.#range.start + storage + tensor.offset * size, bytes: tensor.numElements * size };
  }

  /**
   * Reads a tensor.
   *
   * @param target memory for exactly its bytes; allocated by default
   * @returns its values, little-endian and row-major
   * @throws CheckpointError MTL_TORCH_FILE_INVALID when they are not there or do not have their checksum
   */
  async readTensor(tensor: TorchTensor, target?: Uint8Array): Promise<Uint8Array> {
    const size = dtypeBytes[tensor.dtype];
    // before memory of a size is taken that the file does not have
    const entry = this.#entryOf(tensor);
    const values = target ?? new Uint8Array(tensor.numElements * size);
    if (tensor.numElements === 0) return values;
    const start = await startOfEntry(this.#range, entry);
    if (tensor.isContiguous) {
      await this.#range.readInto(values, start + tensor.offset * size);
      if (values.length === entry.bytes) checkEntry(entry, values, this.path);
      return values;
    }
    const last = tensor.shape.reduce((sum, length, dim) => sum + (length - 1) * tensor.strides[dim]!, 0);
    const span = await this.#range.read(start + tensor.offset * size, (last + 1) * size);
    gather({ target: values, span, tensor });
    return values;
  }

  async close(): Promise<void> {
    if (this.#ownsHandle) await this.#range.handle.close();
  }

  #entryOf({ storage }: TorchTensor): ZipEntry {
    const name = `${this.#folder}data/${storage.key}`;
    const entry = this.#entries.get(name);
    if (entry === undefined)
      throw torchFileInvalid(this.path, `${name}, which a tensor refers to, is missing`);
    const bytes = storage.numElements * dtypeBytes[storage.dtype];
    if (entry.bytes === bytes) return entry;
    throw torchFileInvalid(this.path, `${name} has ${entry.bytes} bytes, and ${bytes} are declared`);
  }
}

/** Copies the elements of a tensor, in their order, out of the part of the storage that it spans. */
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

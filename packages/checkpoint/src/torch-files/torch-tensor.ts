import { type Dtype, shapeDefect, volumeOfShape } from '@mtl/layout';
import { dtypeBytes } from '../tensors/dtype.js';

/** A block of memory that torch.save stored, for example as an entry of the zip file. */
export interface TorchStorage {
  readonly key: string;
  readonly dtype: Dtype;
  readonly numElements: number;
}

/** A tensor in a PyTorch file, which is a view of a storage. `TorchFile.readTensor` reads its values. */
export class TorchTensor {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** The offset of the first element in the storage, in elements. */
  readonly offset: number;
  readonly storage: TorchStorage;

  constructor(options: {
    readonly dtype: Dtype;
    readonly shape: readonly number[];
    readonly strides: readonly number[];
    readonly offset: number;
    readonly storage: TorchStorage;
  }) {
    this.dtype = options.dtype;
    this.shape = options.shape;
    this.strides = options.strides;
    this.offset = options.offset;
    this.storage = options.storage;
  }

  get numElements(): number {
    return volumeOfShape(this.shape);
  }

  /** True if the elements are row-major, without gaps. */
  get isContiguous(): boolean {
    let expected = 1;
    for (let dim = this.shape.length - 1; dim >= 0; dim--) {
      if (this.shape[dim] !== 1 && this.strides[dim] !== expected) return false;
      expected *= this.shape[dim]!;
    }
    return true;
  }

  /** A sentence with the reason why the tensor cannot be a view of its storage; undefined if it can. */
  get defect(): string | undefined {
    const { shape, strides, offset, storage } = this;
    const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
    const defect = shapeDefect(shape);
    if (defect !== undefined) return defect;
    if (strides.length !== shape.length || !strides.every(isCount) || !isCount(offset))
      return 'its strides are no counts';
    const available = Math.floor((storage.numElements * dtypeBytes[storage.dtype]) / dtypeBytes[this.dtype]);
    const last = shape.reduce((sum, size, dim) => sum + (size - 1) * strides[dim]!, offset);
    // a tensor with stride 0 (an expanded tensor) could need more memory than the file has bytes, so it is an
    // error
    if (this.numElements === 0 || (last < available && this.numElements <= available)) return undefined;
    return `a tensor [${shape.join(', ')}] is larger than its storage of ${available} elements`;
  }
}

/** The location of a storage's bytes in its file. */
export interface StoredStorage {
  readonly start: number;
  readonly bytes: number;
  /** Compares all bytes of the storage with their checksum. Absent if there is no checksum. */
  readonly check?: (bytes: Uint8Array) => void;
}

/**
 * Finds the bytes of a storage in the file.
 *
 * @throws CheckpointError MTL_TORCH_FILE_INVALID if the storage is missing or does not have the expected size
 */
export type FindStorage = (storage: TorchStorage) => Promise<StoredStorage>;

/** The structure of a file that torch.save wrote, without the values of tensors. */
export interface TorchFileContents {
  /** The value that was saved. */
  readonly content: unknown;
  readonly find: FindStorage;
}

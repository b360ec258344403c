import { type Dtype, shapeDefect, volumeOfShape } from '@mtl/layout';
import { dtypeBytes } from '../tensors/dtype.js';

/** A block of memory that torch.save stored: an entry of the zip file. */
export interface TorchStorage {
  readonly key: string;
  readonly dtype: Dtype;
  readonly numElements: number;
}

/** A tensor of a file of PyTorch: a view of a storage. Its values are read by `TorchFile.readTensor`. */
export class TorchTensor {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** First element in the storage, in elements of the dtype. */
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

  /** True if its elements are row-major, without gaps. */
  get isContiguous(): boolean {
    let expected = 1;
    for (let dim = this.shape.length - 1; dim >= 0; dim--) {
      if (this.shape[dim] !== 1 && this.strides[dim] !== expected) return false;
      expected *= this.shape[dim]!;
    }
    return true;
  }

  /** The defect of the tensor as a view of its storage, or undefined. */
  get defect(): string | undefined {
    const { shape, strides, offset, storage } = this;
    const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
    const defect = shapeDefect(shape);
    if (defect !== undefined) return defect;
    if (strides.length !== shape.length || !strides.every(isCount) || !isCount(offset))
      return 'its strides are no counts';
    const available = Math.floor((storage.numElements * dtypeBytes[storage.dtype]) / dtypeBytes[this.dtype]);
    const last = shape.reduce((sum, size, dim) => sum + (size - 1) * strides[dim]!, offset);
    // an expanded tensor would take more memory than the file has bytes
    if (this.numElements === 0 || (last < available && this.numElements <= available)) return undefined;
    return `a tensor [${shape.join(', ')}] is larger than its storage of ${available} elements`;
  }
}

/** The place of the bytes of a storage in its file. */
export interface StoredStorage {
  readonly start: number;
  readonly bytes: number;
  /** Compares all bytes with their checksum, where there is one. */
  readonly check?: (bytes: Uint8Array) => void;
}

/**
 * Finds the place of a storage.
 *
 * @throws CheckpointError MTL_TORCH_FILE_INVALID where it is not there, or has another size
 */
export type FindStorage = (storage: TorchStorage) => Promise<StoredStorage>;

/** The parts of a file of torch.save. */
export interface TorchFileContents {
  /** The value that was saved. */
  readonly content: unknown;
  readonly find: FindStorage;
}

import type { TorchStorage } from './torch-tensor.js';

/** Where the bytes of a storage are in its file. */
export interface StoredStorage {
  readonly start: number;
  readonly bytes: number;
  /** Compares all bytes with their checksum, where there is one. */
  readonly check?: (bytes: Uint8Array) => void;
}

/** @throws CheckpointError MTL_TORCH_FILE_INVALID where it is not there, or has another size */
export type FindStorage = (storage: TorchStorage) => Promise<StoredStorage>;

/** What a file of torch.save consists of. */
export interface TorchFileParts {
  /** What was saved. */
  readonly content: unknown;
  readonly find: FindStorage;
}

/** The structure of a file takes some hundred bytes a tensor; what is larger is no checkpoint. */
export const maxPickleBytes = 1 << 28;

import type { Slice } from './boxes.js';

/**
 * The dtype of a stored tensor, under its safetensors name. Bytes are little-endian. A BOOL is one byte with
 * value 0 or 1.
 */
export type Dtype =
  | 'F64'
  | 'F32'
  | 'F16'
  | 'BF16'
  | 'F8_E4M3'
  | 'F8_E5M2'
  | 'F8_E8M0'
  | 'I64'
  | 'I32'
  | 'I16'
  | 'I8'
  | 'U64'
  | 'U32'
  | 'U16'
  | 'U8'
  | 'BOOL'
  | 'C64';

/** A finite bound: the magnitude of every value in a tensor must be smaller. */
export interface ValueLimit {
  readonly magnitude: number;
  /** The end of the sentence "VALUE is ...", for example `too large for float16`. */
  readonly why: string;
}

/**
 * The box of a tensor that this rank holds. Name and global shape are the same as without any parallelism.
 * Bytes are little-endian, in row-major order within the box `slices`.
 */
export interface LogicalTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly globalShape: readonly number[];
  /**
   * One range [start, end) per dimension. An empty range means that this rank holds nothing of the tensor.
   */
  readonly slices: readonly Slice[];
  /**
   * The index of this copy of the box, by default 0. A save writes only copy 0; the copies on other ranks
   * have higher indices.
   */
  readonly replica?: number;
  /** Returns the bytes to save. They must not change until the save requests the next tensor or ends. */
  read(): Uint8Array | Promise<Uint8Array>;
  /**
   * Copies the bytes to save into `target`, which has the exact size and is aligned to 8 bytes. If this
   * method exists, a save calls it instead of `read` and reuses one buffer for all tensors. In contrast,
   * memory allocated by `read` accumulates until it is garbage-collected.
   */
  readInto?(target: Uint8Array): void | Promise<void>;
  /**
   * Copies the values [start, end) of the row-major tensor into `target`, which has the exact size and is
   * aligned to 8 bytes. Serves readers with less memory than the tensor needs. If it is undefined, only the
   * whole tensor can be read.
   */
  readRange?(range: Slice, target: Uint8Array): Promise<void>;
  /**
   * Receives the loaded bytes. The loader reuses their memory after this call has returned and its promise,
   * if any, has resolved.
   */
  write(bytes: Uint8Array): void | Promise<void>;
  /**
   * Only for F32: a save that requires finite values also rejects values that reach this limit, because they
   * would make a run as useless as infinite values.
   */
  readonly limit?: ValueLimit;
  /**
   * Calls `fill` with the tensor's host memory for the box. If this method exists, a load fills this memory
   * directly and does not call `write`. It is undefined if `write` does more than copy the bytes.
   */
  withMemory?(fill: (memory: Uint8Array) => Promise<void>): Promise<void>;
}

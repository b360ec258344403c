import type { Slice } from './boxes.js';

/**
 * A dtype of stored tensors, by its safetensors name. Bytes are little-endian; BOOL is one byte with value 0
 * or 1.
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

/** A finite magnitude that no value of a tensor may reach. */
export interface ValueLimit {
  readonly magnitude: number;
  /** Completes the sentence "VALUE is ...", for example with `too large for float16`. */
  readonly why: string;
}

/**
 * The box of a tensor that a rank holds, under the name and global shape that the tensor has without any
 * parallelism. Bytes are little-endian, in row-major order of the box `slices`.
 */
export interface LogicalTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly globalShape: readonly number[];
  /** One [start, end) per dimension; an empty range means that this rank holds nothing of the tensor. */
  readonly slices: readonly Slice[];
  /**
   * The number of this copy of the box. A save writes only number 0 (the default); copies on other ranks have
   * other numbers.
   */
  readonly replica?: number;
  /** Returns the bytes to save. They must not change until the save requests the next tensor or ends. */
  read(): Uint8Array | Promise<Uint8Array>;
  /**
   * Copies the bytes to save into `target`, which has the exact size and is aligned to 8 bytes. If this
   * method exists, a save calls it instead of `read`, with one buffer for all tensors. Memory that `read`
   * allocates must be garbage-collected and can accumulate.
   */
  readInto?(target: Uint8Array): void | Promise<void>;
  /**
   * Copies the values [start, end) of the row-major tensor into `target`, which has the exact size and is
   * aligned to 8 bytes. It is for tensors that are larger than the reader's memory. Absent: only the whole
   * tensor can be read.
   */
  readRange?(range: Slice, target: Uint8Array): Promise<void>;
  /**
   * Receives the loaded bytes. The loader reuses their memory after this call has returned or its promise has
   * resolved.
   */
  write(bytes: Uint8Array): void | Promise<void>;
  /**
   * F32 only: a save that requires finite values also rejects values of this magnitude or more, because they
   * would make a run as useless as infinite values.
   */
  readonly limit?: ValueLimit;
  /**
   * Calls `fill` with host memory for the box: a load then fills this memory directly and does not call
   * `write`. Absent if `write` does more than copy the bytes.
   */
  withMemory?(fill: (memory: Uint8Array) => Promise<void>): Promise<void>;
}

import type { Slice } from './boxes.js';

/**
 * A dtype of stored tensors, by its safetensors name. Bytes are little-endian; BOOL is one byte of 0 or 1.
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

/** A magnitude that no value of a tensor may reach, although it is finite. */
export interface ValueLimit {
  readonly magnitude: number;
  /** The rest of the sentence "VALUE is ...": `too large for float16`. */
  readonly why: string;
}

/**
 * The part of a tensor that a rank holds, under the name and shape that the tensor has without any
 * parallelism. Bytes are little-endian, row-major, of exactly the box `slices`.
 */
export interface LogicalTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly globalShape: readonly number[];
  /** One [start, end) per dimension; an empty range means that this rank holds nothing of the tensor. */
  readonly slices: readonly Slice[];
  /** 0 (the default) for the copy that a save writes; another number for copies on further ranks. */
  readonly replica?: number;
  /**
   * Returns the bytes to save. They must stay as they are until the save asks for the next tensor or ends.
   */
  read(): Uint8Array | Promise<Uint8Array>;
  /**
   * Copies the bytes to save into `target`, which has exactly their number of bytes and is aligned to 8
   * bytes. A save calls this method instead of `read` if it exists, with one buffer for all tensors: memory
   * that `read` allocates waits for the garbage collector, and adds up.
   */
  readInto?(target: Uint8Array): void | Promise<void>;
  /**
   * Copies the values [start, end) of the row-major tensor into `target`, which has exactly their number of
   * bytes and is aligned to 8 bytes: for a tensor that is larger than the memory of its reader. Absent: only
   * all values can be read.
   */
  readRange?(range: Slice, target: Uint8Array): Promise<void>;
  /** Takes the loaded bytes. The loader reuses their memory once this call has returned or resolved. */
  write(bytes: Uint8Array): void | Promise<void>;
  /**
   * F32 only: a save that requires finite values also rejects values of this magnitude or more, which make a
   * run as useless as infinity does.
   */
  readonly limit?: ValueLimit;
  /**
   * Lends host memory of the box while `fill` runs: a load then fills the memory directly and does not call
   * `write`. Absent if `write` does more than copy the bytes.
   */
  withMemory?(fill: (memory: Uint8Array) => Promise<void>): Promise<void>;
}

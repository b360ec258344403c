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
   * Copies the bytes to save into memory of exactly their number, on a boundary of 8 bytes. A save uses it in
   * place of `read`, where there is one, with one buffer for all tensors: memory that `read` allocates waits
   * for the garbage collector, and adds up.
   */
  readInto?(target: Uint8Array): void | Promise<void>;
  /** Takes the loaded bytes; they are the loader's again once this has returned or resolved. */
  write(bytes: Uint8Array): void | Promise<void>;
  /**
   * F32 only: a magnitude that makes a value as wrong as infinity does, where a save requires finite values.
   */
  readonly limit?: ValueLimit;
  /**
   * Lends host memory of the box while `fill` runs: a load then fills the memory directly and does not call
   * `write`. A tensor with another `write` has none.
   */
  withMemory?(fill: (memory: Uint8Array) => Promise<void>): Promise<void>;
}

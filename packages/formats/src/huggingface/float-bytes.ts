import { bfloat16Bits, float16Bits } from '@mtl/kernels';
import { float16Value } from '@mtl/kernels/internal';

/** Dtypes of weights that are read, by their safetensors names. */
export const readableDtypes = ['F32', 'BF16', 'F16', 'F64'] as const;
type ReadableDtype = (typeof readableDtypes)[number];

/** Dtypes of weights that are written. */
export type WritableDtype = 'F32' | 'BF16' | 'F16';

/** Returns whether weights of a dtype can be read, by its safetensors name. */
export function isReadableDtype(dtype: string): dtype is ReadableDtype {
  return (readableDtypes as readonly string[]).includes(dtype);
}

let float16Table: Float32Array | undefined;

/**
 * Returns the value of every float16. The table is needed since exponentiation for millions of weights would
 * take seconds.
 */
function float16Values(): Float32Array {
  float16Table ??= Float32Array.from({ length: 65536 }, (_, bits) => float16Value(bits));
  return float16Table;
}

const newFloats: AllocateFloats = (length) => new Float32Array(length);

/**
 * Returns little-endian bytes at an address that is a multiple of 8, as typed arrays require; copies them
 * only if they are not aligned.
 */
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes);
}

/**
 * Returns little-endian bytes of a dtype as float32 values (float64 is rounded); may share memory with
 * `bytes`.
 */
export function decodeFloats(
  bytes: Uint8Array,
  dtype: ReadableDtype,
  allocate: AllocateFloats = newFloats,
): Float32Array {
  const { buffer, byteOffset, length } = aligned(bytes);
  if (dtype === 'F32') return new Float32Array(buffer, byteOffset, length / 4);
  if (dtype === 'F64') {
    const doubles = new Float64Array(buffer, byteOffset, length / 8);
    const values = allocate(doubles.length);
    values.set(doubles);
    return values;
  }
  const bits = new Uint16Array(buffer, byteOffset, length / 2);
  const values = allocate(bits.length);
  if (dtype === 'F16') {
    const table = float16Values();
    for (let index = 0; index < bits.length; index++) values[index] = table[bits[index]!]!;
  } else {
    const raw = new Uint32Array(values.buffer, values.byteOffset, values.length);
    for (let index = 0; index < bits.length; index++) raw[index] = bits[index]! << 16;
  }
  return values;
}

/** Returns the memory of float32 values as bytes. */
export const viewAsBytes = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/**
 * Returns float32 values rounded to a dtype (to nearest, ties to even), as little-endian bytes; may share
 * memory.
 */
export function encodeFloats(values: Float32Array, dtype: WritableDtype): Uint8Array {
  if (dtype === 'F32') return viewAsBytes(values);
  const round = dtype === 'BF16' ? bfloat16Bits : float16Bits;
  const bits = new Uint16Array(values.length);
  for (let index = 0; index < values.length; index++) bits[index] = round(values[index]!);
  return new Uint8Array(bits.buffer);
}

/** Allocates memory for `length` values; it is not cleared. */
export type AllocateFloats = (length: number) => Float32Array;

/**
 * Scratch memory for the copies of one tensor, reused for the next one. New arrays would add up until the
 * garbage collector runs. Pages that were never written take no physical memory.
 */
export class ScratchMemory {
  readonly #buffer: ArrayBuffer;
  #used = 0;

  /**
   * Reserves `bytes`, the most that callers should take between two calls of `reset`; beyond that, memory is
   * allocated separately.
   */
  constructor(bytes: number) {
    this.#buffer = new ArrayBuffer(bytes);
  }

  /** The bytes that are reserved. */
  get capacity(): number {
    return this.#buffer.byteLength;
  }

  /** Releases all memory that was taken: the next calls may overwrite it. */
  reset(): void {
    this.#used = 0;
  }

  /** Takes memory aligned to 8 bytes; it is not cleared. */
  bytes(length: number): Uint8Array {
    const start = this.#used;
    const end = start + Math.ceil(length / 8) * 8;
    if (end > this.#buffer.byteLength) return new Uint8Array(length);
    this.#used = end;
    return new Uint8Array(this.#buffer, start, length);
  }

  readonly floats: AllocateFloats = (length) => {
    const { buffer, byteOffset } = this.bytes(4 * length);
    return new Float32Array(buffer, byteOffset, length);
  };
}

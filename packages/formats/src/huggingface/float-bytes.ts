import { bfloat16Bits, float16Bits, float16Value } from '@mtl/kernels';

/** The dtypes of weights that can be read. The names are the same as in safetensors. */
export const readableDtypes = ['F32', 'BF16', 'F16', 'F64'] as const;
type ReadableDtype = (typeof readableDtypes)[number];

/** Dtypes of weights that are written. */
export type WritableDtype = 'F32' | 'BF16' | 'F16';

/** Returns true if weights of the given dtype (a safetensors name) can be read. */
export function isReadableDtype(dtype: string): dtype is ReadableDtype {
  return (readableDtypes as readonly string[]).includes(dtype);
}

let float16Table: Float32Array | undefined;

/**
 * Returns the values of all 65,536 float16 bit patterns. A table avoids exponentiation for each weight, which
 * would take seconds for millions of weights.
 */
function float16Values(): Float32Array {
  float16Table ??= Float32Array.from({ length: 65536 }, (_, bits) => float16Value(bits));
  return float16Table;
}

const newFloats: AllocateFloats = (length) => new Float32Array(length);

/**
 * Returns the given bytes at an offset that is a multiple of 8, because typed arrays need this alignment.
 * Copies them if their offset is not aligned.
 */
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes);
}

/**
 * Converts the little-endian bytes of values of the given dtype to float32 values; float64 is rounded. The
 * result may share memory with `bytes`.
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

/** Returns a view of a float32 array's memory as bytes. */
export const viewAsBytes = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/**
 * Rounds float32 values to the given dtype (to nearest, ties to even), and returns them as little-endian
 * bytes. The result may share memory with `values`.
 */
export function encodeFloats(values: Float32Array, dtype: WritableDtype): Uint8Array {
  if (dtype === 'F32') return viewAsBytes(values);
  const round = dtype === 'BF16' ? bfloat16Bits : float16Bits;
  const bits = new Uint16Array(values.length);
  for (let index = 0; index < values.length; index++) bits[index] = round(values[index]!);
  return new Uint8Array(bits.buffer);
}

/** Allocates an array of `length` values without setting them to zero. */
export type AllocateFloats = (length: number) => Float32Array;

/**
 * Memory for temporary copies of a tensor, which is reused for the next tensor. If each tensor had new
 * arrays, they would accumulate until the garbage collector runs. Pages that have never been written take no
 * physical memory.
 */
export class ScratchMemory {
  readonly #buffer: ArrayBuffer;
  #used = 0;

  /**
   * Reserves `bytes` bytes, which should be enough between two calls of `reset`. A request that does not fit
   * gets a separate allocation.
   */
  constructor(bytes: number) {
    this.#buffer = new ArrayBuffer(bytes);
  }

  /** The bytes that are reserved. */
  get capacity(): number {
    return this.#buffer.byteLength;
  }

  /** Makes all memory available again. Later calls may overwrite earlier results. */
  reset(): void {
    this.#used = 0;
  }

  /** Returns `length` bytes, aligned to 8 bytes and not set to zero. */
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

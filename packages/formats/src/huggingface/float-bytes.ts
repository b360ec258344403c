import { bfloat16Bits, float16Bits, float16Value } from '@mtl/kernels';
import type { AllocateFloats } from './scratch-memory.js';

/** Dtypes of weights that are read, by their safetensors names. */
export const readableDtypes = ['F32', 'BF16', 'F16', 'F64'] as const;
export type ReadableDtype = (typeof readableDtypes)[number];

/** Dtypes of weights that are written. */
export type WritableDtype = 'F32' | 'BF16' | 'F16';

export function isReadableDtype(dtype: string): dtype is ReadableDtype {
  return (readableDtypes as readonly string[]).includes(dtype);
}

let float16Table: Float32Array | undefined;

/** The value of every float16: exponentiation for each of millions of weights would take seconds. */
function float16Values(): Float32Array {
  float16Table ??= Float32Array.from({ length: 65536 }, (_, bits) => float16Value(bits));
  return float16Table;
}

const newFloats: AllocateFloats = (length) => new Float32Array(length);

/** Little-endian bytes on a boundary of 8, as typed arrays need it; a copy only where they are not. */
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes);
}

/** Little-endian bytes of a dtype as float32 values (float64 is rounded); may share memory with `bytes`. */
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

/** float32 values rounded to a dtype (to nearest, ties to even), as little-endian bytes; may share memory. */
export function encodeFloats(values: Float32Array, dtype: WritableDtype): Uint8Array {
  if (dtype === 'F32') return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const round = dtype === 'BF16' ? bfloat16Bits : float16Bits;
  const bits = new Uint16Array(values.length);
  for (let index = 0; index < values.length; index++) bits[index] = round(values[index]!);
  return new Uint8Array(bits.buffer);
}

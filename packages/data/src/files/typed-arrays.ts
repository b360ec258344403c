// Dataset indices are in shared memory, so that a loader's worker thread can read them without copying them.

/** Returns a zeroed Int32Array over shared memory. */
export function sharedInt32Array(length: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(length * 4));
}

/** Returns a zeroed Uint32Array over shared memory. */
export function sharedUint32Array(length: number): Uint32Array {
  return new Uint32Array(new SharedArrayBuffer(length * 4));
}

/** Returns a zeroed Float64Array over shared memory. */
export function sharedFloat64Array(length: number): Float64Array {
  return new Float64Array(new SharedArrayBuffer(length * 8));
}

/** Returns a zeroed Int16Array over shared memory. */
export function sharedInt16Array(length: number): Int16Array {
  return new Int16Array(new SharedArrayBuffer(length * 2));
}

/** Returns a zeroed Uint8Array over shared memory. */
export function sharedUint8Array(length: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(length));
}

/**
 * Converts int64 values to float64 in place, without allocating a bigint for each value. The conversion is
 * exact up to 2^53, which exceeds any file size or count; the caller checks the range.
 */
export function int64BitsToFloat64(values: Float64Array): Float64Array {
  const halves = new Uint32Array(values.buffer, values.byteOffset, values.length * 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = (halves[2 * i + 1]! | 0) * 4294967296 + halves[2 * i]!;
  }
  return values;
}

/** Returns the int64 bits of integers stored as float64, as a new array of 32-bit words (low word first). */
export function float64ToInt64Bits(values: Float64Array): Uint32Array {
  const halves = new Uint32Array(values.length * 2);
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    halves[2 * i] = value % 4294967296;
    halves[2 * i + 1] = Math.floor(value / 4294967296);
  }
  return halves;
}

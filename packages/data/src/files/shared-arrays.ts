// Indices live in shared memory, so that a loader's worker thread reads them without a copy.

/** A zeroed Int32Array over shared memory. */
export function sharedInt32Array(length: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(length * 4));
}

/** A zeroed Uint32Array over shared memory. */
export function sharedUint32Array(length: number): Uint32Array {
  return new Uint32Array(new SharedArrayBuffer(length * 4));
}

/** A zeroed Float64Array over shared memory. */
export function sharedFloat64Array(length: number): Float64Array {
  return new Float64Array(new SharedArrayBuffer(length * 8));
}

/** A zeroed Int16Array over shared memory. */
export function sharedInt16Array(length: number): Int16Array {
  return new Int16Array(new SharedArrayBuffer(length * 2));
}

/** A zeroed Uint8Array over shared memory. */
export function sharedUint8Array(length: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(length));
}

import { KernelError, UsageError } from '@mtl/errors';
import { describeOperand } from './checked-operation.js';
import { outOfMemoryRemedy } from './native/addon.js';

/** The element types of tensors. Only the reference device computes in `float64` (for gradient checks). */
export const dtypes = ['float32', 'bfloat16', 'float16', 'float64', 'int32', 'int64', 'uint8'] as const;

export type DType = (typeof dtypes)[number];

/**
 * For each dtype, the typed array that stores its elements on the host. 16-bit floats are stored as their
 * bits.
 */
export interface TypedArrayOf {
  readonly float32: Float32Array;
  readonly bfloat16: Uint16Array;
  readonly float16: Uint16Array;
  readonly float64: Float64Array;
  readonly int32: Int32Array;
  readonly int64: BigInt64Array;
  readonly uint8: Uint8Array;
}

export type TypedArray = TypedArrayOf[DType];

const arrayTypes = {
  float32: Float32Array,
  bfloat16: Uint16Array,
  float16: Uint16Array,
  float64: Float64Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
} as const;

/** Returns the number of bytes in an element of the given dtype. */
export function bytesPerElement(dtype: DType): number {
  return arrayTypes[dtype].BYTES_PER_ELEMENT;
}

/**
 * Returns the number by which native code identifies a dtype (see native/include/mtl/dtype.h).
 *
 * @throws UsageError `MTL_DTYPE` for an unknown name
 */
export function dtypeNumber(dtype: DType): number {
  const number = dtypes.indexOf(dtype);
  if (number >= 0) return number;
  throw new UsageError('MTL_DTYPE', `unknown dtype ${String(dtype)}`, { expected: dtypes.join(', ') });
}

/** The properties of a tensor with which host values must agree. */
interface OnDevice {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The number of elements. */
  readonly size: number;
}

/**
 * Rejects a typed array whose type does not match the tensor's dtype, because its bits would be
 * misinterpreted. Also rejects an array whose size does not match. Bytes (Uint8Array) match any dtype.
 *
 * @throws UsageError `MTL_DTYPE`, `MTL_SHAPE`
 */
export function checkTypedArray(values: TypedArray, tensor: OnDevice): void {
  const { dtype } = tensor;
  const given = ArrayBuffer.isView(values) ? values[Symbol.toStringTag] : undefined;
  const wanted = arrayTypes[dtype].name;
  if (given !== wanted && given !== 'Uint8Array') {
    throw new UsageError('MTL_DTYPE', `${given ?? describeOperand(values)} for a tensor of ${dtype}`, {
      expected: dtype === 'bfloat16' || dtype === 'float16' ? `${wanted} of its bits` : wanted,
      remedy: `copy the numbers: ${wanted}.from(values); Tensor.from converts an array of numbers to any dtype`,
    });
  }
  const isBytes = given !== wanted;
  checkLength(
    values.length,
    tensor,
    isBytes ? { what: `${given} of`, unit: 'bytes' } : { what: `${given} of` },
  );
}

/** @throws UsageError `MTL_SHAPE` */
export function checkLength(
  length: number,
  { dtype, shape, size }: OnDevice,
  { what, unit = 'elements' }: { readonly what: string; readonly unit?: 'elements' | 'bytes' },
): void {
  const expected = unit === 'bytes' ? size * bytesPerElement(dtype) : size;
  if (length === expected) return;
  const tensor = `a tensor of shape [${shape.join(', ')}] and dtype ${dtype}`;
  throw new UsageError('MTL_SHAPE', `${what} ${length} ${unit} for ${tensor}`, {
    expected: `${expected} ${unit}`,
  });
}

/**
 * Returns a new, zero-filled host array for `size` elements of the given dtype.
 *
 * @throws UsageError `MTL_DTYPE`, `MTL_ARGUMENT` for an invalid size; KernelError `MTL_OUT_OF_MEMORY`
 */
export function newTypedArray<D extends DType>(dtype: D, size: number): TypedArrayOf[D] {
  dtypeNumber(dtype);
  if (!(Number.isSafeInteger(size) && size >= 0)) {
    throw new UsageError('MTL_ARGUMENT', `a host array of ${String(size)} elements`, {
      expected: 'a whole number, 0 or more',
    });
  }
  try {
    return new arrayTypes[dtype](size) as TypedArrayOf[D];
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    const bytes = size * bytesPerElement(dtype);
    throw new KernelError(
      'MTL_OUT_OF_MEMORY',
      `the host has no ${bytes} bytes for an array of ${size} ${dtype}`,
      {
        remedy: outOfMemoryRemedy,
        cause,
      },
    );
  }
}

import type { Dtype } from '@mtl/layout';

/**
 * The bytes per element of every dtype that this package can read and write. Keys are the names in
 * safetensors headers.
 */
export const dtypeBytes = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  F8_E4M3: 1,
  F8_E5M2: 1,
  F8_E8M0: 1,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
  C64: 8,
} as const satisfies Readonly<Record<Dtype, number>>;

/** Returns true if `value` is the safetensors name of a supported dtype. */
export function isDtype(value: unknown): value is Dtype {
  return typeof value === 'string' && Object.hasOwn(dtypeBytes, value);
}

/**
 * Sorts tensors so that wide dtypes come first, and otherwise keeps their order. If tensors are written in
 * this order, each tensor starts at a multiple of its element size in the file.
 */
export function inAlignedOrder<Tensor extends { readonly dtype: Dtype }>(
  tensors: readonly Tensor[],
): Tensor[] {
  return [...tensors].sort((a, b) => dtypeBytes[b.dtype] - dtypeBytes[a.dtype]);
}

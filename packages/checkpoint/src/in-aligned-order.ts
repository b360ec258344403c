import { type Dtype, dtypeBytes } from './dtype.js';

/**
 * Tensors with wide dtypes first, otherwise in the order given: written in this order, each starts at a
 * multiple of its element size in the file.
 */
export function inAlignedOrder<Tensor extends { readonly dtype: Dtype }>(
  tensors: readonly Tensor[],
): Tensor[] {
  return [...tensors].sort((a, b) => dtypeBytes[b.dtype] - dtypeBytes[a.dtype]);
}

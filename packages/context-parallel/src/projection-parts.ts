import { cast, type Tensor } from '@mtl/kernels';
import type { ContextCall } from './context-attention.js';

/** The sizes of a packed projection of queries, keys and values. */
export interface ProjectionSizes {
  /** Own positions, two chunks. */
  readonly numPositions: number;
  readonly batch: number;
  readonly heads: number;
  readonly groups: number;
  readonly headSize: number;
}

export function sizesOf({ qkv, numHeads, numGroups = numHeads }: ContextCall): ProjectionSizes {
  const [numPositions, batch, width] = qkv.tensor.shape as [number, number, number];
  return {
    numPositions,
    batch,
    heads: numHeads,
    groups: numGroups,
    headSize: width / (numHeads + 2 * numGroups),
  };
}

/** [S, B, G, R + 2, D]: for each group its queries, then its key and its value. */
export const projectionShape = ({ numPositions, batch, heads, groups, headSize }: ProjectionSizes) =>
  [numPositions, batch, groups, heads / groups + 2, headSize] as const;

/** The keys and values in a packed projection: [S, B, G, 2 D], strided. */
export function keysAndValuesIn(qkv: Tensor, sizes: ProjectionSizes): Tensor {
  const { numPositions, batch, heads, groups, headSize } = sizes;
  const perGroup = (heads / groups + 2) * headSize;
  return qkv.strided({
    offset: (heads / groups) * headSize,
    shape: [numPositions, batch, groups, 2 * headSize],
    strides: [batch * groups * perGroup, groups * perGroup, perGroup, 1],
  });
}

/** Keys and values alone, [S, B, G, 2 D] without gaps, which is what travels. */
export function keysAndValuesOf(qkv: Tensor, sizes: ProjectionSizes): Tensor {
  using part = keysAndValuesIn(qkv, sizes);
  return cast({ input: part, dtype: qkv.dtype });
}

/** Keys and values apart, [K, B, G, D] each, of rows [K, B, G, 2 D]; strided views. */
export function splitKeysAndValues(both: Tensor): { readonly key: Tensor; readonly value: Tensor } {
  const [numKeys, batch, groups, double] = both.shape as [number, number, number, number];
  const headSize = double / 2;
  const half = (offset: number): Tensor =>
    both.strided({
      offset,
      shape: [numKeys, batch, groups, headSize],
      strides: [batch * groups * double, groups * double, double, 1],
    });
  return { key: half(0), value: half(headSize) };
}

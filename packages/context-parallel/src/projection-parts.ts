import { cast, type Tensor } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import type { AttendedHeads } from './context-attention.js';

/** The sizes of a packed projection of queries, keys and values of the own chunks. */
export interface ProjectionSizes {
  /** Dimensions of the own rows: [own, B], or [own] where samples are packed. */
  readonly rows: readonly number[];
  readonly heads: number;
  readonly groups: number;
  readonly headSize: number;
}

/** Returns the sizes of a projection of width `width`. */
export function sizesOf(
  { numHeads, numGroups = numHeads }: AttendedHeads,
  { shape: [chunkSize, ...columns], perProcess }: Chunks,
  width: number,
): ProjectionSizes {
  return {
    rows: [perProcess * chunkSize!, ...columns],
    heads: numHeads,
    groups: numGroups,
    headSize: width / (numHeads + 2 * numGroups),
  };
}

/** Returns the rows of one of the own chunks, by its place among them: [own, ...] to [c, ...]. */
export function rowsOfPlace(tensor: Tensor, place: number, { perProcess }: Chunks): Tensor {
  const size = tensor.dim(0) / perProcess;
  return tensor.rows(place * size, (place + 1) * size);
}

/** Returns the shape [rows, ..., G, R + 2, D]: for each group its queries, then its key and its value. */
export const projectionShape = ({ rows, heads, groups, headSize }: ProjectionSizes): readonly number[] => [
  ...rows,
  groups,
  heads / groups + 2,
  headSize,
];

/** Strides of contiguous dimensions `outer`, whose elements have `inner` each. */
const outerStrides = (outer: readonly number[], inner: number): readonly number[] =>
  outer.map((_, dim) => outer.slice(dim + 1).reduce((size, length) => size * length, inner));

/** Returns the keys and values in a packed projection: [rows, ..., G, 2 D], strided. */
export function keysAndValuesIn(qkv: Tensor, sizes: ProjectionSizes): Tensor {
  const { rows, heads, groups, headSize } = sizes;
  const outer = [...rows, groups];
  return qkv.strided({
    offset: (heads / groups) * headSize,
    shape: [...outer, 2 * headSize],
    strides: [...outerStrides(outer, (heads / groups + 2) * headSize), 1],
  });
}

/** Keys and values alone, [rows, ..., G, 2 D] without gaps, which is what travels. */
export function keysAndValuesOf(qkv: Tensor, sizes: ProjectionSizes): Tensor {
  using part = keysAndValuesIn(qkv, sizes);
  return cast({ input: part, dtype: qkv.dtype });
}

/** Keys and values apart, [K, ..., G, D] each, of rows [K, ..., G, 2 D]; strided views. */
export function splitKeysAndValues(both: Tensor): { readonly key: Tensor; readonly value: Tensor } {
  const [outer, double] = [both.shape.slice(0, -1), both.dim(-1)];
  const half = (offset: number): Tensor =>
    both.strided({
      offset,
      shape: [...outer, double / 2],
      strides: [...outerStrides(outer, double), 1],
    });
  return { key: half(0), value: half(double / 2) };
}

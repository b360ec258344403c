import { cast, type Tensor } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import type { AttendedHeads } from './context-attention.js';

/** The sizes of a packed projection of queries, keys and values, for a process's own chunks. */
export interface ProjectionSizes {
  /** Dimensions of the process's own rows: [own, B], or [own] for packed samples. */
  readonly rows: readonly number[];
  readonly heads: number;
  readonly groups: number;
  readonly headSize: number;
}

/** Returns the sizes of a projection whose last dimension is `width`. */
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

/**
 * Returns the rows of one of a process's own chunks, by its index among these chunks: [own, ...] to [c, ...].
 */
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

/** Returns the strides of contiguous dimensions `outer` whose elements each consist of `inner` values. */
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

/** Copies the keys and values, [rows, ..., G, 2 D], to contiguous memory, in which they are sent. */
export function keysAndValuesOf(qkv: Tensor, sizes: ProjectionSizes): Tensor {
  using part = keysAndValuesIn(qkv, sizes);
  return cast({ input: part, dtype: qkv.dtype });
}

/** Splits rows [K, ..., G, 2 D] into keys and values, [K, ..., G, D] each; strided views. */
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

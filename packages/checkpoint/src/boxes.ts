import type { Slice } from '@mtl/kernels';

/** A slice as manifests and shard files store it. */
export type StoredSlice = readonly [start: number, end: number];

export function storedSlices(slices: readonly Slice[]): StoredSlice[] {
  return slices.map(({ start, end }) => [start, end] as const);
}

export function slicesFromStored(stored: readonly StoredSlice[]): Slice[] {
  return stored.map(([start, end]) => ({ start, end }));
}

/** The box that is the whole tensor of `shape`. */
export function wholeSlices(shape: readonly number[]): Slice[] {
  return shape.map((size) => ({ start: 0, end: size }));
}

/** The extents of a box: its local shape. */
export function shapeOfSlices(slices: readonly Slice[]): number[] {
  return slices.map(({ start, end }) => end - start);
}

/** Number of elements of a shape; 1 for a scalar (no dimensions). */
export function volumeOfShape(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** The box common to `a` and `b` (same number of dimensions), or undefined when they share no element. */
export function intersectSlices(a: readonly Slice[], b: readonly Slice[]): Slice[] | undefined {
  const common: Slice[] = [];
  for (let dim = 0; dim < a.length; dim++) {
    const start = Math.max(a[dim]!.start, b[dim]!.start);
    const end = Math.min(a[dim]!.end, b[dim]!.end);
    if (start >= end) return undefined;
    common.push({ start, end });
  }
  return common;
}

/** A box as people write it: `[0:4, 8:16]`. */
export function formatSlices(slices: readonly Slice[]): string {
  return `[${slices.map(({ start, end }) => `${start}:${end}`).join(', ')}]`;
}

/** What is wrong with `slices` as a box inside a tensor of `shape`, or undefined when nothing is. */
export function slicesDefect(slices: readonly Slice[], shape: readonly number[]): string | undefined {
  if (slices.length !== shape.length) {
    return `${slices.length} slices for a tensor of ${shape.length} dimensions`;
  }
  for (const [dim, { start, end }] of slices.entries()) {
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end)) return `slice ${dim} is not of integers`;
    if (start < 0 || end < start || end > shape[dim]!) {
      return `slice ${start}:${end} does not lie inside dimension ${dim} of size ${shape[dim]}`;
    }
  }
  return undefined;
}

/**
 * What is wrong with `shape` (sizes must be non-negative integers with a countable product), or undefined.
 */
export function shapeDefect(shape: readonly unknown[]): string | undefined {
  let volume = 1;
  for (const size of shape) {
    if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) {
      return `size ${JSON.stringify(size)} is not a whole number of elements`;
    }
    volume *= size;
  }
  // 2^50 elements of 8 bytes is the largest byte count that a double still holds exactly.
  return volume <= 2 ** 50 ? undefined : `${volume} elements are too many to address`;
}

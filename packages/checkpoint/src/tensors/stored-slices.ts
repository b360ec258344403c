import type { Slice } from '@mtl/layout';

/** A slice as manifests and shard files store it. */
export type StoredSlice = readonly [start: number, end: number];

export function storedSlices(slices: readonly Slice[]): StoredSlice[] {
  return slices.map(({ start, end }) => [start, end] as const);
}

export function slicesFromStored(stored: readonly StoredSlice[]): Slice[] {
  return stored.map(([start, end]) => ({ start, end }));
}

import type { Slice } from '@mtl/kernels';
import { shapeOfSlices, volumeOfShape } from './boxes.js';

/** One box of a flat range: where it lies in the global tensor and where its bytes lie in the range. */
export interface FlatRangePart {
  readonly slices: readonly Slice[];
  /** First element of this box, counted from the start of the range. */
  readonly offset: number;
  /** Elements in this box; they are contiguous in the range. */
  readonly length: number;
}

/**
 * Cuts elements [start, end) of the row-major flattened box `slices` into boxes, in order, at most 2 per
 * dimension. A distributed optimizer holds such ranges (equal parts of a flat buffer, Rajbhandari 2020,
 * section 5), and a checkpoint stores boxes: with this they are ordinary logical tensors.
 *
 * @param options.slices the box (in global coordinates) that is flattened
 * @param options.start first element of the range, 0 <= start <= end
 * @param options.end one past the last element, at most the volume of the box
 */
export function slicesOfFlatRange(options: {
  readonly slices: readonly Slice[];
  readonly start: number;
  readonly end: number;
}): FlatRangePart[] {
  const shape = shapeOfSlices(options.slices);
  const parts: FlatRangePart[] = [];
  const split = (dim: number, prefix: readonly Slice[], start: number, end: number): void => {
    if (start >= end) return;
    const inner = volumeOfShape(shape.slice(dim + 1));
    const base = options.slices[dim]?.start ?? 0;
    const rest = options.slices.slice(dim + 1);
    const emit = (first: number, last: number): void => {
      const own: readonly Slice[] = dim < shape.length ? [{ start: base + first, end: base + last }] : [];
      const length = (last - first) * inner;
      const offset = parts.reduce((sum, part) => sum + part.length, 0);
      if (length > 0) parts.push({ slices: [...prefix, ...own, ...rest], offset, length });
    };
    const firstWhole = Math.ceil(start / inner);
    const lastWhole = Math.floor(end / inner);
    const inside = (row: number): readonly Slice[] => [...prefix, { start: base + row, end: base + row + 1 }];
    if (firstWhole > lastWhole) {
      const row = lastWhole;
      split(dim + 1, inside(row), start - row * inner, end - row * inner);
      return;
    }
    if (start < firstWhole * inner) {
      split(dim + 1, inside(firstWhole - 1), start - (firstWhole - 1) * inner, inner);
    }
    if (firstWhole < lastWhole) emit(firstWhole, lastWhole);
    if (end > lastWhole * inner) split(dim + 1, inside(lastWhole), 0, end - lastWhole * inner);
  };

  split(0, [], options.start, Math.min(options.end, volumeOfShape(shape)));
  return parts;
}

import type { Slice } from '@mtl/kernels';
import { formatSlices, intersectSlices, shapeOfSlices, volumeOfShape } from './boxes.js';

/**
 * Why `pieces` do not cover a tensor of `shape` exactly once, or undefined when they do.
 * Boxes inside the tensor that do not overlap and have its volume cover it.
 */
export function coverDefect(
  shape: readonly number[],
  pieces: readonly (readonly Slice[])[],
): string | undefined {
  // Sorted by the dimension that is split most, a piece can only overlap the few that start before it ends.
  const numStarts = shape.map((_, dim) => new Set(pieces.map((piece) => piece[dim]!.start)).size);
  const dim = Math.max(numStarts.indexOf(Math.max(...numStarts, 0)), 0);
  const startOf = (piece: readonly Slice[]): number => piece[dim]?.start ?? 0;
  const endOf = (piece: readonly Slice[]): number => piece[dim]?.end ?? 1;
  const sorted = [...pieces].sort((a, b) => startOf(a) - startOf(b));
  let volume = 0;
  for (const [index, piece] of sorted.entries()) {
    volume += volumeOfShape(shapeOfSlices(piece));
    for (let other = index + 1; other < sorted.length; other++) {
      const later = sorted[other]!;
      if (startOf(later) >= endOf(piece)) break;
      if (intersectSlices(piece, later) !== undefined) {
        return `${formatSlices(piece)} and ${formatSlices(later)} overlap`;
      }
    }
  }
  const total = volumeOfShape(shape);
  return volume === total ? undefined : `${total - volume} of ${total} elements are in no piece`;
}

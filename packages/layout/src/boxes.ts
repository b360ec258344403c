/**
 * The elements [start, end) of one dimension of a logical (unsharded) tensor. A list with one slice per
 * dimension is a box: the rectangular part of a tensor that a process holds or a file stores.
 */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** Returns the box that covers a whole tensor of the given shape. */
export function wholeSlices(shape: readonly number[]): Slice[] {
  return shape.map((size) => ({ start: 0, end: size }));
}

/** Returns the local shape of a box. */
export function shapeOfSlices(slices: readonly Slice[]): number[] {
  return slices.map(({ start, end }) => end - start);
}

/** Returns the number of elements in a tensor of the given shape; 1 for a scalar, which has no dimensions. */
export function volumeOfShape(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/**
 * Returns the intersection of the boxes `a` and `b`, which must have the same number of dimensions; undefined
 * if it is empty.
 */
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

/** Formats a box in Python's slice notation: `[0:4, 8:16]`. */
export function formatSlices(slices: readonly Slice[]): string {
  return `[${slices.map(({ start, end }) => `${start}:${end}`).join(', ')}]`;
}

/** Returns why `slices` are not a box inside a tensor of the given shape; undefined if they are. */
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
 * Returns why `shape` is not valid; undefined if it is. Sizes must be non-negative integers whose product is
 * small enough to address.
 */
export function shapeDefect(shape: readonly unknown[]): string | undefined {
  let volume = 1;
  for (const size of shape) {
    if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) {
      // the size may be a bigint, because pickles may contain integers beyond 2^53
      const written = typeof size === 'bigint' ? String(size) : JSON.stringify(size);
      return `size ${written} is not a whole number of elements`;
    }
    volume *= size;
  }
  // 2^50 elements of 8 bytes are 2^53 bytes, the largest byte count that float64 represents exactly.
  return volume <= 2 ** 50 ? undefined : `${volume} elements are too many to address`;
}

/**
 * Returns why `pieces` do not cover a tensor of the given shape exactly once; undefined if they do. They do
 * if the boxes are inside the tensor, do not overlap, and together have the tensor's volume.
 */
export function coverDefect(
  shape: readonly number[],
  pieces: readonly (readonly Slice[])[],
): string | undefined {
  // The pieces are sorted along the dimension that is split most often, so that each piece can overlap only
  // the few pieces that start before its end.
  const numStarts = shape.map((_, dim) => new Set(pieces.map((piece) => piece[dim]!.start)).size);
  const dim = Math.max(numStarts.indexOf(Math.max(...numStarts, 0)), 0);
  const findStart = (piece: readonly Slice[]): number => piece[dim]?.start ?? 0;
  const findEnd = (piece: readonly Slice[]): number => piece[dim]?.end ?? 1;
  const sorted = [...pieces].sort((a, b) => findStart(a) - findStart(b));
  let volume = 0;
  for (const [index, piece] of sorted.entries()) {
    volume += volumeOfShape(shapeOfSlices(piece));
    for (let other = index + 1; other < sorted.length; other++) {
      const later = sorted[other]!;
      if (findStart(later) >= findEnd(piece)) break;
      if (intersectSlices(piece, later) !== undefined) {
        return `${formatSlices(piece)} and ${formatSlices(later)} overlap`;
      }
    }
  }
  const total = volumeOfShape(shape);
  return volume === total ? undefined : `${total - volume} of ${total} elements are in no piece`;
}

/**
 * A box that is a part of a flat range: its slices in the global tensor, and the position of its elements in
 * the range.
 */
export interface FlatRangeBox {
  readonly slices: readonly Slice[];
  /** The offset of the box's first element from the start of the range. */
  readonly offset: number;
  /** The number of elements in the box. They are contiguous in the range. */
  readonly length: number;
}

/**
 * Flattens the box `slices` in row-major order, and splits its elements [start, end) into smaller boxes. The
 * result is in order, with at most 2 boxes per dimension. A distributed optimizer holds such ranges, which
 * are equal parts of a flat buffer (Rajbhandari 2020, section 5), but a checkpoint stores boxes, so the
 * ranges must be converted.
 *
 * @param options.slices the box that is flattened, in global coordinates
 * @param options.start the first element of the range, 0 <= start <= end
 * @param options.end one past the last element, at most the volume of the box
 */
export function slicesOfFlatRange(options: {
  readonly slices: readonly Slice[];
  readonly start: number;
  readonly end: number;
}): FlatRangeBox[] {
  const shape = shapeOfSlices(options.slices);
  const parts: FlatRangeBox[] = [];
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

import type { Parameter } from '@mtl/autograd';

/** Elements [start, end) of the flat buffers. */
export interface FlatRange {
  readonly start: number;
  readonly end: number;
}

/** Where a parameter is in the flat buffers, in elements. */
export interface ParameterRange extends FlatRange {
  readonly parameter: Parameter;
}

/** Consecutive parameters whose gradients are reduced together. */
export interface Bucket extends FlatRange {
  readonly ranges: readonly ParameterRange[];
}

export interface FlatLayout {
  readonly ranges: readonly ParameterRange[];
  /**
   * The buckets in the order in which their gradients become ready, beginning with the last parameters.
   * Together they cover the buffers.
   */
  readonly buckets: readonly Bucket[];
  readonly size: number;
}

interface FlatLayoutOptions {
  /** A bucket is closed once it has this many elements. */
  readonly bucketSize: number;
  /**
   * How many data-parallel ranks there are. Every bucket is divided into equal, aligned slices, one per rank.
   */
  readonly numSlices: number;
}

// 64 elements, or 256 bytes of float32, so that every view is aligned for vectors, matmuls and GPU accesses
const alignment = 64;

const roundUp = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

/**
 * Places the parameters one after another, in order, and groups them into buckets, beginning with the last
 * parameter.
 */
export function flatLayout(
  parameters: readonly Parameter[],
  { bucketSize, numSlices }: FlatLayoutOptions,
): FlatLayout {
  return placeBuckets(groupFromTheEnd(parameters, bucketSize), { numSlices });
}

/** Places groups of parameters one after another. Each group becomes a bucket. */
export function placeBuckets(
  groups: readonly (readonly Parameter[])[],
  { numSlices }: Pick<FlatLayoutOptions, 'numSlices'>,
): FlatLayout {
  let start = 0;
  const ranges: ParameterRange[] = [];
  const buckets = groups.map((group) => {
    const bucketStart = start;
    const own = group.map((parameter) => {
      const range = { parameter, start, end: start + parameter.size };
      start = roundUp(range.end, alignment);
      return range;
    });
    ranges.push(...own);
    start = bucketStart + roundUp(start - bucketStart, alignment * numSlices);
    return { start: bucketStart, end: start, ranges: own };
  });
  return { ranges, buckets: buckets.toReversed(), size: start };
}

/**
 * Returns true if a second pipeline stage has a copy of the parameter. Both copies must be divided into the
 * same slices.
 */
export const hasCopyElsewhere = ({ copiedOver }: Parameter): boolean => copiedOver.includes('pp');

/**
 * Groups the parameters in order, beginning with the last. The group with the first parameters may have fewer
 * than `size` elements. A parameter with a copy on a second pipeline stage gets a separate bucket, so that
 * its slices are the same on both stages.
 */
function groupFromTheEnd(parameters: readonly Parameter[], size: number): Parameter[][] {
  const groups: Parameter[][] = [];
  let filled = Number.POSITIVE_INFINITY;
  for (const parameter of parameters.toReversed()) {
    const hasCopy = hasCopyElsewhere(parameter);
    if (filled >= size || hasCopy) {
      groups.unshift([]);
      filled = 0;
    }
    groups[0]!.unshift(parameter);
    filled = hasCopy ? Number.POSITIVE_INFINITY : filled + parameter.size;
  }
  return groups;
}

/** Divides a range into `count` equal slices. Returns the slice with index `index`. */
export function takeSlice({ start, end }: FlatRange, index: number, count: number): FlatRange {
  const length = (end - start) / count;
  return { start: start + index * length, end: start + (index + 1) * length };
}

/** Returns the intersection of two ranges, or undefined if it is empty. */
export function intersectRanges(left: FlatRange, right: FlatRange): FlatRange | undefined {
  const [start, end] = [Math.max(left.start, right.start), Math.min(left.end, right.end)];
  return start < end ? { start, end } : undefined;
}

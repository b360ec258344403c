import type { Band, Points } from './api-types.js';

export interface DecimateOptions {
  /** The positions of the points, ascending. */
  readonly x: Float64Array;
  /** The value at each position; NaN is a gap. */
  readonly y: Float64Array;
  /** The limits of the shown range, both included. Default: all points. */
  readonly from?: number;
  readonly to?: number;
  /** The approximate number of points to return. */
  readonly numPoints: number;
}

/**
 * Reduces the number of points of a curve without changing how the curve looks. Each bucket of neighbouring
 * points is replaced by its minimum and its maximum, so that a spike of a single step remains visible. The
 * result includes the first and the last point, and one point on each side of the range, so that lines can be
 * drawn to the edges. A bucket that contains only gaps becomes a gap.
 */
export function decimate({ x, y, from = -Infinity, to = Infinity, numPoints }: DecimateOptions): Points {
  const start = Math.max(0, lowerBound(x, from) - 1);
  let end = lowerBound(x, to);
  while (end < x.length && x[end] === to) end += 1;
  end = Math.min(x.length, end + 1);
  const kept = end - start <= numPoints ? all(start, end) : extremes(y, { start, end, numPoints });
  return {
    x: kept.map((index) => x[index]!),
    y: kept.map((index) => (Number.isFinite(y[index]) ? y[index]! : null)),
  };
}

const all = (start: number, end: number): number[] =>
  Array.from({ length: end - start }, (_, index) => start + index);

interface Range {
  readonly start: number;
  readonly end: number;
  readonly numPoints: number;
}

function extremes(y: Float64Array, { start, end, numPoints }: Range): number[] {
  const numBuckets = Math.max(1, Math.floor(numPoints / 2) - 1);
  const kept = [start];
  const keep = (index: number): void => {
    if (index > kept.at(-1)!) kept.push(index);
  };
  for (let bucket = 0; bucket < numBuckets; bucket++) {
    const first = start + Math.floor(((end - start) * bucket) / numBuckets);
    const last = start + Math.floor(((end - start) * (bucket + 1)) / numBuckets);
    let [least, greatest] = [-1, -1];
    for (let index = first; index < last; index++) {
      if (!Number.isFinite(y[index])) continue;
      if (least < 0 || y[index]! < y[least]!) least = index;
      if (greatest < 0 || y[index]! > y[greatest]!) greatest = index;
    }
    keep(least < 0 ? first : Math.min(least, greatest));
    if (least >= 0) keep(Math.max(least, greatest));
  }
  keep(end - 1);
  return kept;
}

export interface MedianBandOptions {
  /** The positions of the points, ascending. */
  readonly x: Float64Array;
  /** The value at each position; NaN is a gap. */
  readonly y: Float64Array;
  /** The limits of the shown range, both included. Default: all points. */
  readonly from?: number;
  readonly to?: number;
}

export interface MedianBand extends Band {
  readonly x: readonly number[];
  /** The median of each bucket. */
  readonly y: readonly (number | null)[];
}

/** The smallest number of values for which there is a band. */
const fewestValues = 40;
const mostBuckets = 100;

/**
 * Returns the median of each bucket of neighbours, and the band that contains four fifths of its values (10th
 * to 90th percentile). A bucket has 2^k steps and starts at a multiple of 2^k, so that a new step changes
 * only the last bucket. Returns undefined if there are few values.
 */
export function medianBand({
  x,
  y,
  from = -Infinity,
  to = Infinity,
}: MedianBandOptions): MedianBand | undefined {
  const start = lowerBound(x, from);
  let end = lowerBound(x, to);
  while (end < x.length && x[end] === to) end += 1;
  if (end - start < fewestValues) return undefined;
  const size = Math.max(8, 2 ** Math.ceil(Math.log2((end - start) / mostBuckets)));
  const band = {
    x: [] as number[],
    y: [] as (number | null)[],
    low: [] as (number | null)[],
    high: [] as (number | null)[],
  };
  for (let first = start; first < end; ) {
    const next = Math.min(end, (Math.floor(first / size) + 1) * size);
    const sorted = y.slice(first, next).filter(Number.isFinite).sort();
    const at = (part: number): number | null => sorted[Math.round(part * (sorted.length - 1))] ?? null;
    // the first and the last point are at the first and the last step, so that the line has its full length
    const middle = first === start ? first : next === end ? end - 1 : (first + next - 1) >> 1;
    band.x.push(x[middle]!);
    band.y.push(at(0.5));
    band.low.push(at(0.1));
    band.high.push(at(0.9));
    first = next;
  }
  return band;
}

/**
 * Returns the exponential moving average of `values`, in which earlier values have the weight `weight`. It is
 * divided by the sum of the weights, so that the first average equals the first value (like Adam's bias
 * correction). Gaps (NaN) remain gaps, and have no weight.
 */
export function smooth(values: Float64Array, weight: number): Float64Array {
  let [sum, total] = [0, 0];
  return values.map((value) => {
    if (!Number.isFinite(value)) return Number.NaN;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

/**
 * Returns the index of the first element of `values` that is at least `value`. The values must be ascending.
 * If there is no such element, returns the length of the list.
 */
export function lowerBound(values: Float64Array, value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

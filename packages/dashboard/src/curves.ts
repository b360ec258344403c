import type { Band, Points } from './api-types.js';

export interface DecimateOptions {
  /** Ascending. */
  readonly x: Float64Array;
  /** One value for each `x`; NaN is a gap. */
  readonly y: Float64Array;
  /** The limits of the shown range, both included. Default: all. */
  readonly from?: number;
  readonly to?: number;
  /** The approximate number of points to return. */
  readonly numPoints: number;
}

/**
 * Returns points that draw the same curve as all its points: the minimum and the maximum of each of many
 * buckets of neighbours, so that a spike of a single step survives. The first and the last point are always
 * among them, and one on each side of the range, to which the line is drawn. A bucket of gaps is a gap.
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
  /** Ascending. */
  readonly x: Float64Array;
  /** One value for each `x`; NaN is a gap. */
  readonly y: Float64Array;
  /** The limits of the shown range, both included. Default: all. */
  readonly from?: number;
  readonly to?: number;
}

export interface MedianBand extends Band {
  readonly x: readonly number[];
  /** The medians, one for each `x`. */
  readonly y: readonly (number | null)[];
}

/** Fewer values than this are shown unchanged. */
const fewestValues = 40;
const mostBuckets = 100;

/**
 * Returns the median of neighbours, and the band that four fifths of their values are in (10th to 90th
 * percentile). A bucket of neighbours has 2^k steps and starts at a multiple of 2^k: an added step changes
 * only the last bucket. Undefined if there are few values.
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
    // the line goes from the first step to the last one
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
 * Returns the exponential moving average of values: each is `weight` times the average before it plus the
 * rest of itself, divided by the weight of all values so far, as if the first had no past (Adam's correction
 * of bias). Gaps (NaN) stay gaps and do not count.
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

/** Returns the first index of ascending numbers that is not below `value`; their length where all are. */
export function lowerBound(values: Float64Array, value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

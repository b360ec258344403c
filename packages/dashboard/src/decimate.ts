import type { Points } from './api-types.js';
import { lowerBound } from './lower-bound.js';

export interface DecimateOptions {
  /** Ascending. */
  readonly x: Float64Array;
  /** As many; NaN is a gap. */
  readonly y: Float64Array;
  /** What is shown, both included. Default: all. */
  readonly from?: number;
  readonly to?: number;
  /** About how many points are wanted. */
  readonly numPoints: number;
}

/**
 * Points that draw a curve as all of its points do: the least and the greatest of each of many buckets of
 * neighbours, so that a spike of a single step survives. The first and the last point are always among them,
 * and one on each side of the range, to which the line is drawn. A bucket of gaps is a gap.
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

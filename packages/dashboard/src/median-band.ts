import type { Band } from './api-types.js';
import { lowerBound } from './lower-bound.js';

export interface MedianBandOptions {
  /** Ascending. */
  readonly x: Float64Array;
  /** As many; NaN is a gap. */
  readonly y: Float64Array;
  /** What is shown, both included. Default: all. */
  readonly from?: number;
  readonly to?: number;
}

export interface MedianBand extends Band {
  readonly x: readonly number[];
  /** Medians. */
  readonly y: readonly (number | null)[];
}

/** Fewer values than this are shown as they are. */
const fewestValues = 40;
const mostBuckets = 100;

/**
 * The median of neighbours, and the band that four fifths of their values are in (10th to 90th percentile).
 * Neighbours are so many steps, a power of two, from a multiple of it on: a step that is added changes the
 * last of them only. Undefined where there are few values.
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

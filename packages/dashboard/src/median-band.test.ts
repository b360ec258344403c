import { describe, expect, it } from 'vitest';
import { medianBand } from './median-band.js';

const counted = (length: number): Float64Array => Float64Array.from({ length }, (_, index) => index);

describe('medianBand', () => {
  it('has the median and the 10th and 90th percentile of neighbours, from the first step to the last', () => {
    // each eleven of a hundred values in any order, one of them far away
    const values = [10, 0, 9, 1, 8, 2, 7, 1000];
    const y = Float64Array.from({ length: 80 }, (_, index) => values[index % 8]!);
    const band = medianBand({ x: counted(80), y })!;
    expect(band.x).toEqual([0, 11, 19, 27, 35, 43, 51, 59, 67, 79]);
    expect(new Set(band.y)).toEqual(new Set([8]));
    expect(new Set(band.low)).toEqual(new Set([1]));
    expect(new Set(band.high)).toEqual(new Set([10]));
  });

  it('changes only its end when a step is added', () => {
    const y = Float64Array.from({ length: 5001 }, (_, index) => Math.sin(index));
    const [before, after] = [5000, 5001].map(
      (length) => medianBand({ x: counted(length), y: y.subarray(0, length) })!,
    );
    expect(before!.y.slice(0, -1)).toEqual(after!.y.slice(0, before!.y.length - 1));
    expect(before!.x.length).toBeLessThanOrEqual(101);
  });

  it('is of the range, leaves out gaps, and is undefined for few values', () => {
    const y = counted(200).fill(Number.NaN, 100, 120);
    const band = medianBand({ x: counted(200), y, from: 50, to: 150 })!;
    expect([band.x[0], band.x.at(-1)]).toEqual([50, 150]);
    expect(band.y).toContain(null);
    expect(medianBand({ x: counted(200), y, from: 50, to: 80 })).toBeUndefined();
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decimate, medianBand } from './curves.js';

const upTo = (length: number): Float64Array => Float64Array.from({ length }, (_, index) => index + 1);

describe('decimate', () => {
  it('keeps a spike and a dip of one step among 100,000', () => {
    const x = upTo(100_000);
    const y = x.map((step) => 1 + 1 / step);
    y[54_321] = 99;
    y[54_400] = -99;
    const points = decimate({ x, y, numPoints: 1000 });
    expect(points.x.length).toBeLessThanOrEqual(1000);
    expect(points.y[points.x.indexOf(54_322)]).toBe(99);
    expect(points.y[points.x.indexOf(54_401)]).toBe(-99);
    expect([points.x[0], points.x.at(-1)]).toEqual([1, 100_000]);
  });

  it('leaves few points as they are, with gaps as null', () => {
    const y = Float64Array.of(3, Number.NaN, 1);
    expect(decimate({ x: upTo(3), y, numPoints: 10 })).toEqual({ x: [1, 2, 3], y: [3, null, 1] });
  });

  it('keeps one point on each side of a range, to which the line is drawn', () => {
    const x = upTo(10);
    expect(decimate({ x, y: x, from: 4, to: 6, numPoints: 100 }).x).toEqual([3, 4, 5, 6, 7]);
    expect(decimate({ x, y: x, from: 4.5, to: 4.6, numPoints: 100 }).x).toEqual([4, 5]);
    expect(decimate({ x, y: x, from: 20, to: 30, numPoints: 100 }).x).toEqual([10]);
    expect(decimate({ x: upTo(0), y: upTo(0), numPoints: 100 })).toEqual({ x: [], y: [] });
  });

  it('has the extremes of every range, in order, and a gap where all is one', () => {
    const value = fc.oneof(fc.double({ noDefaultInfinity: true, noNaN: true }), fc.constant(Number.NaN));
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1, maxLength: 300 }),
        fc.integer({ min: 10, max: 80 }),
        (values, numPoints) => {
          const y = Float64Array.from(values);
          const points = decimate({ x: upTo(y.length), y, numPoints });
          expect(points.x).toEqual([...new Set(points.x)].sort((a, b) => a - b));
          expect(points.x.length).toBeLessThanOrEqual(Math.max(numPoints, 10));
          const finite = values.filter(Number.isFinite);
          const kept = points.y.filter((one) => one !== null);
          expect(Math.max(...kept)).toBe(Math.max(...finite));
          expect(Math.min(...kept)).toBe(Math.min(...finite));
        },
      ),
    );
  });
});

const counted = (length: number): Float64Array => Float64Array.from({ length }, (_, index) => index);

describe('medianBand', () => {
  it('has the median and the 10th and 90th percentile of neighbours, from the first step to the last', () => {
    // the first bucket has eleven values, and each later bucket has eight; every bucket has one outlier
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

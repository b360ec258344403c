import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decimate } from './decimate.js';

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

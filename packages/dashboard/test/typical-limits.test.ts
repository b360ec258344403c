import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { typicalLimits } from '../page/typical-limits.js';

/** A loss that falls from `first` to about `last`. */
const falling = (first: number, last: number): number[] =>
  Array.from({ length: 500 }, (_, at) => last + (first - last) / (1 + at / 5));

const listNumbers = (values: readonly (number | null)[]): number[] => values.filter((one) => one !== null);

describe('typicalLimits', () => {
  it('ends where 98 of 100 values are', () => {
    const values = Array.from({ length: 101 }, (_, at) => at);
    expect(typicalLimits([[...values, 1e6]])).toEqual({ least: 0, most: 98 });
    // a little more is shown, so that nothing is cut
    expect(typicalLimits([values])).toEqual({ least: 0, most: 100 });
  });

  it('leaves out a curve far above the others, wherever it stands, but not one in proportion', () => {
    const [good, other] = [falling(10, 2), falling(10, 3)];
    const bad = good.map((loss, at) => (at < 200 ? loss : 1000 + at));
    const alone = typicalLimits([good, other])!;
    expect(alone.most).toBeLessThan(10);
    for (const all of [
      [good, other, bad],
      [bad, good, other],
    ]) {
      expect(typicalLimits(all)).toEqual(alone);
    }
    expect(typicalLimits([good, good.map((loss) => 2 * loss)])!.most).toBeGreaterThan(1.5 * alone.most);
  });

  it('shows the bottom of a curve that is above another one everywhere', () => {
    const { most } = typicalLimits([falling(0.2, 0.1), falling(6, 2)])!;
    expect(most).toBeGreaterThan(2);
    expect(most).toBeLessThan(3);
  });

  it('shows the majority where a few are far below: six of eight runs whose losses are 40 to 100 times the lowest', () => {
    const tuned = [falling(0.5, 0.09), falling(1.2, 0.35)];
    const ends = [7.4, 6.1, 5.2, 4.6, 4.4, 3.9];
    const { least, most } = typicalLimits([...tuned, ...ends.map((end) => falling(10.4, end))])!;
    expect(least).toBeCloseTo(0.09, 1);
    expect(most).toBeGreaterThan(7.4);
    expect(most).toBeLessThan(10.4);
  });

  it('shows the focused curve whole that is above the others, and at least where one that diverged began', () => {
    const low = Array.from({ length: 7 }, (_, at) => falling(0.5, 0.05 + at / 100));
    const high = falling(10, 5);
    expect(typicalLimits([...low, high])!.most).toBeLessThan(6);
    // up to its 98th percentile
    expect(typicalLimits([...low, high], 7)!.most).toBeGreaterThan(6.5);
    const diverged = falling(0.5, 0.1).map((loss, at) => (at < 150 ? loss : 1e12 * at));
    expect(typicalLimits([...low, diverged], 7)!.most).toBeLessThan(1);
    const atOnce = diverged.map((_, at) => 1e12 * (at + 1));
    expect(typicalLimits([...low, atOnce], 7)!.most).toBeGreaterThan(1e14);
  });

  it('has the focused curve and more than half of the curves in sight, whatever they are', () => {
    const value = fc.oneof(
      fc.double({ min: -10, max: 10, noNaN: true }),
      fc.double({ min: -300, max: 300, noNaN: true }).map((power) => 10 ** power),
      fc.constant(null),
    );
    const curve = fc.array(value, { maxLength: 60 });
    const scaled = fc
      .record({
        first: fc.double({ min: -4, max: 8, noNaN: true }),
        values: fc.array(fc.double({ min: 1, max: 3, noNaN: true }), { minLength: 1, maxLength: 60 }),
      })
      .map(({ first, values }) => values.map((one) => one * 10 ** first));
    const curves = fc.array(fc.oneof(curve, scaled), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(curves, fc.nat(), (all, number) => {
        const focus = number % all.length;
        const limits = typicalLimits(all, focus);
        const known = all.map(listNumbers);
        if (limits === undefined) {
          expect(known.every(({ length }) => length === 0)).toBe(true);
          return;
        }
        const inSight = known.map(
          (values) =>
            values.filter((one) => one >= limits.least && one <= limits.most).length >= values.length / 4,
        );
        expect(inSight[focus]).toBe(true);
        const withValues = known.flatMap(({ length }, at) => (length > 0 ? [inSight[at]] : []));
        expect(withValues.filter(Boolean).length).toBeGreaterThan(withValues.length / 2);
      }),
    );
  });

  it('is undefined without values, and has all of few', () => {
    expect(typicalLimits([[], [null, undefined]])).toBeUndefined();
    expect(typicalLimits([[1, null, 50]])).toEqual({ least: 1, most: 50 });
  });
});

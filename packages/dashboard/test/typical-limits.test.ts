import { describe, expect, it } from 'vitest';
import { typicalLimits } from '../page/typical-limits.js';

/** A loss that falls from `first` to about `last`. */
const falling = (first: number, last: number): number[] =>
  Array.from({ length: 500 }, (_, at) => last + (first - last) / (1 + at / 5));

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

  it('is undefined without values, and has all of few', () => {
    expect(typicalLimits([[], [null, undefined]])).toBeUndefined();
    expect(typicalLimits([[1, null, 50]])).toEqual({ least: 1, most: 50 });
  });
});

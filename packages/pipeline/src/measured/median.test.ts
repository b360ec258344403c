import { describe, expect, it } from 'vitest';
import { median } from './median.js';

describe('median', () => {
  it('is the middle value, or the mean of the two in the middle', () => {
    expect(median([0.1])).toBe(0.1);
    expect(median([10, 9, 0.3])).toBe(9);
    expect(median([4, 1, 3, 10])).toBe(3.5);
    expect(median([Number.POSITIVE_INFINITY, 1, 2])).toBe(2);
  });

  it('leaves the values as they are', () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });

  it('is not a number where a value is none, or there is none', () => {
    expect(median([1, Number.NaN, 2])).toBeNaN();
    expect(median([])).toBeNaN();
  });
});

import { describe, expect, it } from 'vitest';
import { nearestDivisors, nearestMultiples } from './nearest-names.js';

const upTo = (end: number): readonly number[] => Array.from({ length: end }, (_, index) => index + 1);

describe('nearestDivisors', () => {
  it.each([
    { total: 12, value: 5, expected: [4, 6] },
    { total: 12, value: 4, expected: [4] },
    { total: 12, value: 13, expected: [12] },
    { total: 7, value: 3, expected: [1, 7] },
  ])('of $total near $value are $expected', ({ total, value, expected }) => {
    expect(nearestDivisors(total, value)).toEqual(expected);
  });

  it('leaves out no divisor between the two', () => {
    for (const total of upTo(60)) {
      const divisors = upTo(total).filter((n) => total % n === 0);
      for (const value of upTo(70)) {
        const [below, above] = [divisors.findLast((n) => n <= value), divisors.find((n) => n >= value)];
        expect(nearestDivisors(total, value)).toEqual([...new Set([below, above])].filter(Boolean));
      }
    }
  });
});

describe('nearestMultiples', () => {
  it.each([
    { unit: 4, value: 10, expected: [8, 12] },
    { unit: 4, value: 8, expected: [8] },
    { unit: 4, value: 3, expected: [4] },
  ])('of $unit near $value are $expected', ({ unit, value, expected }) => {
    expect(nearestMultiples(unit, value)).toEqual(expected);
  });
});

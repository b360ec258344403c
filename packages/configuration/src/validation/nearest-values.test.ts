import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nearestDivisors, nearestMultiples } from './nearest-values.js';

describe('nearest values', () => {
  it('really divide, and enclose what was asked for', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 1, max: 6000 }), (total, value) => {
        const divisors = nearestDivisors(total, value);
        expect(divisors.length).toBeGreaterThan(0);
        for (const divisor of divisors) expect(total % divisor).toBe(0);
        const between = (low: number, high: number): number =>
          Array.from({ length: Math.max(0, high - low - 1) }, (_, i) => low + 1 + i).filter(
            (n) => total % n === 0,
          ).length;
        if (divisors.length === 2) expect(between(divisors[0]!, divisors[1]!)).toBe(0);
        for (const multiple of nearestMultiples(value, total)) {
          expect(multiple % value).toBe(0);
          expect(Math.abs(multiple - total)).toBeLessThan(value);
        }
      }),
    );
  });
});

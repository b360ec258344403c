/**
 * Returns the divisors of `total` nearest to `value`: one below, one above, `value` itself where it divides.
 */
export function nearestDivisors(total: number, value: number): readonly number[] {
  const divisors = new Set<number>();
  for (let low = 1; low * low <= total; low++) {
    if (total % low === 0) divisors.add(low).add(total / low);
  }
  if (divisors.has(value)) return [value];
  const below = Math.max(...[...divisors].filter((divisor) => divisor < value));
  const above = Math.min(...[...divisors].filter((divisor) => divisor > value));
  return [below, above].filter(Number.isFinite);
}

/**
 * Returns the positive multiples of `unit` nearest to `value`: one below, one above, `value` itself where it
 * is one.
 */
export function nearestMultiples(unit: number, value: number): readonly number[] {
  const below = Math.floor(value / unit) * unit;
  if (below === value) return [value];
  return [below, below + unit].filter((multiple) => multiple > 0);
}

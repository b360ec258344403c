/** A constant of a minimum: where the search starts, and what it cannot exceed. */
export interface Range {
  readonly start: number;
  readonly most?: number;
}

/**
 * The smallest value of a function near the start: one coordinate after the other, in steps that become
 * smaller. Deterministic.
 */
export function minimize(ranges: readonly Range[], cost: (point: readonly number[]) => number): number[] {
  let best = ranges.map(({ start }) => start);
  let lowest = cost(best);
  for (let step = 0.5; step > 1e-4; ) {
    const before = lowest;
    for (const [i, { most = Number.POSITIVE_INFINITY }] of ranges.entries()) {
      for (const factor of [1 + step, 1 / (1 + step)]) {
        const point = best.map((value, k) => (k === i ? Math.min(most, value * factor) : value));
        const value = cost(point);
        if (value < lowest) [best, lowest] = [point, value];
      }
    }
    if (lowest > before - 1e-9) step /= 2;
  }
  return best;
}

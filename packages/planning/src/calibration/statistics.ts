/** The mean of repeated measurements, and half the distance between their quartiles over their median. */
export function meanWithSpread(values: readonly number[]): {
  readonly mean: number;
  readonly spread: number;
} {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, spread: medianWithSpread(values).spread };
}

/** The median of repeated measurements, and half the distance between their quartiles over it. */
export function medianWithSpread(values: readonly number[]): {
  readonly median: number;
  readonly spread: number;
} {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): number => {
    const position = part * (sorted.length - 1);
    const [low, high] = [sorted[Math.floor(position)]!, sorted[Math.ceil(position)]!];
    return low + (position - Math.floor(position)) * (high - low);
  };
  const median = at(0.5);
  return { median, spread: median > 0 ? (at(0.75) - at(0.25)) / 2 / median : 0 };
}

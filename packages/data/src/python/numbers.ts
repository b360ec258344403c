/**
 * Rounds to the nearest integer, like Python's and NumPy's round(): halves are rounded to the nearest even
 * integer.
 */
export function roundHalfToEven(value: number): number {
  const floor = Math.floor(value);
  const fraction = value - floor;
  if (fraction !== 0.5) return fraction < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

/**
 * Returns the sum of float64 values, which are added in NumPy's order: blocks of at most 128 values have
 * eight partial sums, and longer arrays are split in halves. Weights that are normalised by this sum equal
 * NumPy's weights to the last bit.
 */
export function pairwiseSum(values: readonly number[], start = 0, end = values.length): number {
  const count = end - start;
  if (count < 8) {
    let sum = 0;
    for (let i = start; i < end; i++) sum += values[i]!;
    return sum;
  }
  if (count <= 128) {
    const partial = values.slice(start, start + 8);
    let i = 8;
    for (; i < count - (count % 8); i += 8) {
      for (let lane = 0; lane < 8; lane++) partial[lane]! += values[start + i + lane]!;
    }
    const [a, b, c, d, e, f, g, h] = partial as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    let sum = a + b + (c + d) + (e + f + (g + h));
    for (; i < count; i++) sum += values[start + i]!;
    return sum;
  }
  let half = Math.floor(count / 2);
  half -= half % 8;
  return pairwiseSum(values, start, start + half) + pairwiseSum(values, start + half, end);
}

/** Divides weights by their sum. */
export function normalizeWeights(weights: readonly number[]): number[] {
  const sum = pairwiseSum(weights);
  return weights.map((weight) => weight / sum);
}

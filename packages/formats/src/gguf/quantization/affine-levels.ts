import { clamp, roundEven } from './float32-arithmetic.js';

const { abs, fround, sqrt } = Math;

/** Settings of the search for a sub-block's levels. */
export interface LevelSearch {
  /** The largest level; the smallest is 0. */
  readonly maxLevel: number;
  /** The difference between `maxLevel` and the number of levels that the first candidate scale covers. */
  readonly firstStep: number;
  readonly numSteps: number;
}

/** The values of a sub-block as `scale * level - offset`. The offset is not negative. */
export interface AffineLevels {
  readonly scale: number;
  readonly offset: number;
  readonly levels: Uint8Array;
}

/** Sums over a sub-block's values, from which least squares computes scale and minimum. */
interface Sums {
  readonly weights: number;
  readonly values: number;
}

/** Returns each value's weight in the error: its magnitude plus the root mean square of all values. */
function computeWeights(values: Float32Array): Float32Array {
  let squares = 0;
  for (const value of values) squares = fround(squares + fround(value * value));
  const mean = fround(sqrt(fround(squares / values.length)));
  return values.map((value) => mean + abs(value));
}

/**
 * Returns the scale and minimum that minimize the weighted squared error for the given levels; undefined if
 * there are none.
 */
function leastSquares(
  levels: Uint8Array,
  { values, weights, sums }: { values: Float32Array; weights: Float32Array; sums: Sums },
): { readonly scale: number; readonly minimum: number } | undefined {
  let [sumLevels, sumSquares, sumProducts] = [0, 0, 0];
  for (let index = 0; index < levels.length; index++) {
    const level = levels[index]!;
    const weighted = fround(weights[index]! * level);
    sumLevels = fround(sumLevels + weighted);
    sumSquares = fround(sumSquares + fround(weighted * level));
    sumProducts = fround(sumProducts + fround(weighted * values[index]!));
  }
  const determinant = fround(fround(sums.weights * sumSquares) - fround(sumLevels * sumLevels));
  if (determinant <= 0) return undefined;
  const minimum = fround(
    fround(fround(sumSquares * sums.values) - fround(sumLevels * sumProducts)) / determinant,
  );
  if (minimum > 0) return { scale: fround(sumProducts / sumSquares), minimum: 0 };
  const scale = fround(
    fround(fround(sums.weights * sumProducts) - fround(sums.values * sumLevels)) / determinant,
  );
  return { scale, minimum };
}

/** Returns the weighted squared error of approximating the values by `scale * level + minimum`. */
function computeError(
  levels: Uint8Array,
  {
    values,
    weights,
    scale,
    minimum,
  }: { values: Float32Array; weights: Float32Array } & {
    scale: number;
    minimum: number;
  },
): number {
  let error = 0;
  for (let index = 0; index < levels.length; index++) {
    const difference = fround(fround(fround(scale * levels[index]!) + minimum) - values[index]!);
    error = fround(error + fround(weights[index]! * fround(difference * difference)));
  }
  return error;
}

/**
 * Searches for the best scale and offset of a sub-block. For each candidate scale, it rounds the values to
 * levels, and fits a scale and a minimum to these levels by least squares. This is the same search as in
 * ggml's reference quantization for Q4_K and Q5_K, with the same order of float32 operations.
 */
export function searchAffineLevels(values: Float32Array, search: LevelSearch): AffineLevels {
  const { maxLevel, firstStep, numSteps } = search;
  const weights = computeWeights(values);
  let [least, most] = [values[0]!, values[0]!];
  let sums: Sums = { weights: weights[0]!, values: fround(weights[0]! * values[0]!) };
  for (let index = 1; index < values.length; index++) {
    const [value, weight] = [values[index]!, weights[index]!];
    least = Math.min(least, value);
    most = Math.max(most, value);
    sums = { weights: fround(sums.weights + weight), values: fround(sums.values + fround(weight * value)) };
  }
  least = Math.min(least, 0);
  const levels = new Uint8Array(values.length);
  if (most === least) return { scale: 0, offset: -least, levels };
  let base = least;
  const round = (inverse: number): void => {
    for (let index = 0; index < values.length; index++) {
      levels[index] = clamp(roundEven(fround(inverse * fround(values[index]! - base))), 0, maxLevel);
    }
  };
  const range = (): number => fround(most - base);
  const first = fround(maxLevel / range());
  round(first);
  let best = { scale: fround(1 / first), minimum: least, levels: levels.slice() };
  let bestError = computeError(levels, { values, weights, scale: best.scale, minimum: least });
  const stepSize = fround(0.1);
  for (let step = 0; step <= numSteps; step++) {
    const wider = fround(fround(firstStep + fround(stepSize * step)) + maxLevel);
    round(fround(wider / range()));
    const found = leastSquares(levels, { values, weights, sums });
    if (found === undefined) continue;
    const error = computeError(levels, { values, weights, ...found });
    if (error >= bestError) continue;
    best = { ...found, levels: levels.slice() };
    bestError = error;
    // as in ggml's reference, the following candidates start from the new minimum
    base = found.minimum;
  }
  return { scale: best.scale, offset: -best.minimum, levels: best.levels };
}

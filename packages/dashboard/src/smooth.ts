/**
 * The exponential moving average of values: each is `weight` times the average before it plus the rest of
 * itself, divided by the weight of all values so far, as if the first had no past (Adam's correction of
 * bias). Gaps (NaN) stay gaps and do not count.
 */
export function smooth(values: Float64Array, weight: number): Float64Array {
  let [sum, total] = [0, 0];
  return values.map((value) => {
    if (!Number.isFinite(value)) return Number.NaN;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

/** Consistent with the standard deviation of a normal distribution: 1 / its upper quartile. */
const deviationsOfMedian = 1.4826;
/**
 * Least spread, as a share of the median. Of a value that hardly changes the median absolute deviation is
 * next to 0, and any change would be far outside of it.
 */
const leastSpread = 0.02;

/** What is far outside of recent values: above `limit`. */
export interface RecentDistribution {
  readonly median: number;
  readonly limit: number;
}

/**
 * The last values of a quantity, and by robust statistics what is far above them: the median and the median
 * absolute deviation, which a few spikes among the values do not move (Leys et al. 2013).
 */
export class RecentValues {
  readonly #window: number;
  readonly #values: number[];

  /**
   * @param options.window values that are kept
   * @param options.values earlier values, the newest last
   */
  constructor({ window, values = [] }: { readonly window: number; readonly values?: readonly number[] }) {
    this.#window = window;
    this.#values = values.slice(-window);
  }

  /** The newest last. */
  get values(): readonly number[] {
    return this.#values;
  }

  /** Takes note of a value, unless it is not finite. */
  add(value: number): void {
    if (!Number.isFinite(value)) return;
    this.#values.push(value);
    if (this.#values.length > this.#window) this.#values.shift();
  }

  /** By median + factor x spread; undefined before the window is full. */
  distribution(factor: number): RecentDistribution | undefined {
    if (this.#values.length < this.#window) return undefined;
    const median = medianOf(this.#values);
    const deviation = medianOf(this.#values.map((value) => Math.abs(value - median)));
    const spread = Math.max(deviationsOfMedian * deviation, leastSpread * Math.abs(median));
    return { median, limit: median + factor * spread };
  }
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
}

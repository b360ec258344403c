/** Consistent with the standard deviation of a normal distribution: 1 / its upper quartile. */
const deviationsOfMedian = 1.4826;
/** Of recent values. */
export interface RecentDistribution {
  readonly median: number;
  /** As the standard deviation of a normal distribution. */
  readonly spread: number;
}

export interface RecentValuesOptions {
  /** Values that are kept. */
  readonly window: number;
  /**
   * Least spread, as a share of the median. Of a value that hardly changes the median absolute deviation is
   * next to 0, and any change would be far outside of it.
   */
  readonly leastSpread: number;
  /** Earlier values, the newest last. Default: none. */
  readonly values?: readonly number[];
}

/**
 * The last values of a quantity, and by robust statistics what is far above them: the median and the median
 * absolute deviation, which a few spikes among the values do not move (Leys et al. 2013).
 */
export class RecentValues {
  readonly #window: number;
  readonly #leastSpread: number;
  readonly #values: number[];

  constructor({ window, leastSpread, values = [] }: RecentValuesOptions) {
    this.#window = window;
    this.#leastSpread = leastSpread;
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

  /** Undefined before the window is full. */
  distribution(): RecentDistribution | undefined {
    if (this.#values.length < this.#window) return undefined;
    const median = medianOf(this.#values);
    const deviation = medianOf(this.#values.map((value) => Math.abs(value - median)));
    const spread = Math.max(deviationsOfMedian * deviation, this.#leastSpread * Math.abs(median));
    return { median, spread };
  }
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
}

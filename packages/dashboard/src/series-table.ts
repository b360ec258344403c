import { lowerBound } from './curves.js';

/**
 * The largest number of columns. It is more than any run has, and prevents a damaged file from exhausting
 * memory.
 */
const mostColumns = 256;

/** The numbers in records, in one column for each name, sorted by iteration. */
export class SeriesTable {
  readonly #iterations = new GrowingColumn();
  readonly #columns = new Map<string, GrowingColumn>();

  get length(): number {
    return this.#iterations.length;
  }

  get names(): readonly string[] {
    return [...this.#columns.keys()];
  }

  get iterations(): Float64Array {
    return this.#iterations.values;
  }

  /**
   * Returns the column named `name`; undefined for an unknown name. A value is NaN if a record lacks it, or
   * if it was not finite.
   */
  column(name: string): Float64Array | undefined {
    return this.#columns.get(name)?.values;
  }

  /**
   * Returns the last value of a column; undefined if the value is not finite, or if the column does not
   * exist.
   */
  last(name: string): number | undefined {
    const value = this.column(name)?.at(-1);
    return Number.isFinite(value) ? value : undefined;
  }

  /**
   * Adds the numbers and booleans of a record. If the record's iteration is not above the last record's
   * iteration, records from this iteration on are removed first, because a resumed run computes these steps
   * again.
   */
  add(record: Readonly<Record<string, unknown>> & { readonly iteration: number }): void {
    const { iteration } = record;
    if (this.length > 0 && iteration <= this.iterations.at(-1)!) {
      this.truncate(lowerBound(this.iterations, iteration));
    }
    for (const [name, value] of Object.entries(record)) {
      const isNumber = typeof value === 'number' || typeof value === 'boolean' || value === null;
      if (name !== 'iteration' && isNumber)
        this.#findColumn(name)?.push(value === null ? Number.NaN : +value);
    }
    this.#iterations.push(iteration);
    for (const column of this.#columns.values()) if (column.length < this.length) column.push(Number.NaN);
  }

  /** Keeps the first `length` records. */
  truncate(length: number): void {
    for (const column of [this.#iterations, ...this.#columns.values()]) column.truncate(length);
  }

  /**
   * Returns the column named `name`. If the column does not exist, adds it, with NaN for each record before
   * the current record.
   */
  #findColumn(name: string): GrowingColumn | undefined {
    const known = this.#columns.get(name);
    if (known !== undefined || this.#columns.size === mostColumns) return known;
    const column = new GrowingColumn();
    while (column.length < this.length) column.push(Number.NaN);
    this.#columns.set(name, column);
    return column;
  }
}

/** A list of numbers that grows at its end; its memory doubles when it is full. */
class GrowingColumn {
  #values = new Float64Array(256);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The values so far, as a view that may no longer be current after the next `push`. */
  get values(): Float64Array {
    return this.#values.subarray(0, this.#length);
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const larger = new Float64Array(2 * this.#length);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#length] = value;
    this.#length += 1;
  }

  /** Keeps the first `length` values. */
  truncate(length: number): void {
    this.#length = Math.min(this.#length, length);
  }
}

/** Numbers that are added at the end, in memory that doubles. */
export class GrowingColumn {
  #values = new Float64Array(256);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The values so far: a view that the next `push` may leave behind. */
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

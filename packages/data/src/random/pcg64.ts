const mask64 = (1n << 64n) - 1n;
const mask128 = (1n << 128n) - 1n;
const multiplier = 47026247687942121848144207491837523525n;

/**
 * NumPy's default generator, PCG64 (O'Neill 2014): a 128-bit linear congruential generator whose output is
 * reduced to 64 bits by an exclusive or and a rotation. The constructor takes the values in
 * `numpy.random.PCG64(seed).state`.
 */
export class Pcg64 {
  #state: bigint;
  readonly #increment: bigint;
  /**
   * The upper half of the last 64-bit output, which the next call returns. Undefined if it has already been
   * returned.
   */
  #upper: number | undefined;

  constructor({ state, increment }: { readonly state: bigint; readonly increment: bigint }) {
    this.#state = state;
    this.#increment = increment;
  }

  /** Returns the next 32 bits: the lower half of a 64-bit output, then its upper half. */
  u32(): number {
    if (this.#upper !== undefined) {
      const upper = this.#upper;
      this.#upper = undefined;
      return upper;
    }
    this.#state = (this.#state * multiplier + this.#increment) & mask128;
    const mixed = (this.#state >> 64n) ^ (this.#state & mask64);
    const rotation = this.#state >> 122n;
    const bits = ((mixed >> rotation) | (mixed << (64n - rotation))) & mask64;
    this.#upper = Number(bits >> 32n);
    return Number(bits & 0xffffffffn);
  }

  /**
   * Returns an integer in [0, count), with the same draws as `Generator.integers` for 32-bit integers.
   * `count` must be at most 2^20.
   */
  below(count: number): number {
    // a product whose low half is below this remainder is rejected, because some results would otherwise be
    // too frequent (Lemire 2019); all products stay below 2^53
    const least = 2 ** 32 % count;
    for (;;) {
      const product = this.u32() * count;
      if (product % 2 ** 32 >= least) return Math.floor(product / 2 ** 32);
    }
  }
}

const mask64 = (1n << 64n) - 1n;
const mask128 = (1n << 128n) - 1n;
const multiplier = 47026247687942121848144207491837523525n;

/**
 * NumPy's default generator, PCG64 (O'Neill 2014: a linear congruential generator of 128 bits, reduced to 64
 * by an exclusive or and a rotation), from a state that `numpy.random.PCG64(seed).state` gives.
 */
export class Pcg64 {
  #state: bigint;
  readonly #increment: bigint;
  /** The upper half of the last 64 bits, which is drawn next; undefined if it was drawn already. */
  #upper: number | undefined;

  constructor({ state, increment }: { readonly state: bigint; readonly increment: bigint }) {
    this.#state = state;
    this.#increment = increment;
  }

  /** Returns the next 32 bits: the lower half of 64, then the upper one. */
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
   * Returns an integer from 0 to below `count` (at most 2^20), drawn like a 32-bit integer of
   * `Generator.integers`.
   */
  below(count: number): number {
    // values below the remainder of 2^32 would be drawn too often (Lemire 2019); the products stay below 2^53
    const least = 2 ** 32 % count;
    for (;;) {
      const product = this.u32() * count;
      if (product % 2 ** 32 >= least) return Math.floor(product / 2 ** 32);
    }
  }
}

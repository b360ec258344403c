const stateSize = 624;
const shift = 397;

/**
 * MT19937 (Matsumoto and Nishimura 1998) seeded by `init_genrand`: the raw stream of C++ `std::mt19937` and
 * of NumPy's `RandomState(seed)`.
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(stateSize);
  #next = stateSize;

  /** `seed` is taken modulo 2^32. */
  constructor(seed: number) {
    this.reseed(seed);
  }

  /** Starts the stream of another seed, as a new generator would, without allocating. */
  reseed(seed: number): void {
    const state = this.#state;
    state[0] = seed >>> 0;
    for (let i = 1; i < stateSize; i++) {
      const previous = state[i - 1]! ^ (state[i - 1]! >>> 30);
      state[i] = Math.imul(1812433253, previous) + i;
    }
    this.#next = stateSize;
  }

  /** Returns the next unsigned 32-bit integer. */
  u32(): number {
    if (this.#next >= stateSize) this.#refill();
    let y = this.#state[this.#next++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    y ^= y >>> 18;
    return y >>> 0;
  }

  #refill(): void {
    const state = this.#state;
    for (let k = 0; k < stateSize; k++) {
      const following = k + 1 === stateSize ? 0 : k + 1;
      const far = k + shift >= stateSize ? k + shift - stateSize : k + shift;
      const y = (state[k]! & 0x80000000) | (state[following]! & 0x7fffffff);
      state[k] = state[far]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.#next = 0;
  }
}

const stateSize = 624;
const shift = 397;

/**
 * MT19937 (Matsumoto and Nishimura 1998), seeded by `init_genrand`. It produces the same raw stream as C++
 * `std::mt19937` and NumPy's `RandomState(seed)`.
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(stateSize);
  #next = stateSize;

  /** @param seed taken modulo 2^32 */
  constructor(seed: number) {
    this.reseed(seed);
  }

  /** Restarts with the given seed, like a new generator, but without allocating memory. */
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

const stateSize64 = 312;
const shift64 = 156;
const maskOf64Bits = (1n << 64n) - 1n;

/**
 * The generator `std::mt19937_64` of C++ (Nishimura 2000). Megatron shuffles BERT's sample mapping with it.
 */
export class MersenneTwister64 {
  // A 64-bit integer is stored as two halves in typed arrays. With bigints, every random number would take
  // microseconds, because each result is allocated.
  readonly #high = new Uint32Array(stateSize64);
  readonly #low = new Uint32Array(stateSize64);
  #next = stateSize64;
  #outputHigh = 0;
  #outputLow = 0;

  /** @param seed taken modulo 2^64 */
  constructor(seed: number | bigint) {
    let word = BigInt(seed) & maskOf64Bits;
    for (let i = 0; i < stateSize64; i++) {
      if (i > 0) word = (6364136223846793005n * (word ^ (word >> 62n)) + BigInt(i)) & maskOf64Bits;
      this.#high[i] = Number(word >> 32n);
      this.#low[i] = Number(word & 0xffffffffn);
    }
  }

  /** Returns the next unsigned 64-bit integer. */
  u64(): bigint {
    this.#draw();
    return (BigInt(this.#outputHigh) << 32n) | BigInt(this.#outputLow);
  }

  /** Returns the next unsigned 64-bit integer modulo `divisor` (a positive integer up to 2^37). */
  modulo(divisor: number): number {
    this.#draw();
    // The remainder is computed from sixteen bits at a time, because (divisor - 1) * 2^16 + 65535 is exact in
    // float64.
    const afterHigh = this.#outputHigh % divisor;
    const afterMiddle = (afterHigh * 65536 + (this.#outputLow >>> 16)) % divisor;
    return (afterMiddle * 65536 + (this.#outputLow & 0xffff)) % divisor;
  }

  #draw(): void {
    if (this.#next >= stateSize64) this.#refill();
    let high = this.#high[this.#next]!;
    let low = this.#low[this.#next]!;
    this.#next++;
    // x ^= (x >> 29) & 0x5555555555555555
    const shiftedLow = (low >>> 29) | (high << 3);
    high ^= (high >>> 29) & 0x55555555;
    low ^= shiftedLow & 0x55555555;
    // x ^= (x << 17) & 0x71D67FFFEDA60000
    const shiftedHigh = (high << 17) | (low >>> 15);
    low ^= (low << 17) & 0xeda60000;
    high ^= shiftedHigh & 0x71d67fff;
    // x ^= (x << 37) & 0xFFF7EEE000000000
    high ^= (low << 5) & 0xfff7eee0;
    // x ^= x >> 43
    low ^= high >>> 11;
    this.#outputHigh = high >>> 0;
    this.#outputLow = low >>> 0;
  }

  #refill(): void {
    const high = this.#high;
    const low = this.#low;
    for (let k = 0; k < stateSize64; k++) {
      const following = k + 1 === stateSize64 ? 0 : k + 1;
      const far = k + shift64 >= stateSize64 ? k + shift64 - stateSize64 : k + shift64;
      // This combines the upper 33 bits of word k with the lower 31 bits of the following word.
      const joinedHigh = high[k]!;
      const joinedLow = (low[k]! & 0x80000000) | (low[following]! & 0x7fffffff);
      const odd = joinedLow & 1;
      high[k] = high[far]! ^ (joinedHigh >>> 1) ^ (odd ? 0xb5026f5a : 0);
      low[k] = low[far]! ^ ((joinedLow >>> 1) | (joinedHigh << 31)) ^ (odd ? 0xa96619e9 : 0);
    }
    this.#next = 0;
  }
}

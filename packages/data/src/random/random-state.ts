import { UsageError } from '@mtl/errors';
import { MersenneTwister } from './mersenne-twister.js';

/** An array that `shuffle` can permute in place. */
interface Shufflable {
  readonly length: number;
  [index: number]: number;
}

/**
 * The functions of NumPy's legacy `numpy.random.RandomState(seed)` that Megatron's data pipeline uses. They
 * return the same random values, so the same seed gives the same document order, sample order and masks as in
 * Megatron.
 */
export class RandomState {
  readonly #generator: MersenneTwister;

  /** @param seed an integer in [0, 2^32), as NumPy requires */
  constructor(seed: number) {
    if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff) {
      throw new UsageError('MTL_DATA_SEED', `the random seed ${seed} is not usable`, {
        expected: 'an integer from 0 to 4294967295',
        exitCode: 2,
      });
    }
    this.#generator = new MersenneTwister(seed);
  }

  /**
   * Restarts with the given seed (taken modulo 2^32), like a new generator, but without allocating memory.
   */
  reseed(seed: number): void {
    this.#generator.reseed(seed);
  }

  /** Returns the next raw unsigned 32-bit integer. */
  u32(): number {
    return this.#generator.u32();
  }

  /**
   * Returns a float64 in [0, 1) with 53 random bits, like NumPy's `random()`, `rand()` and `random_sample()`.
   */
  double(): number {
    const high = this.#generator.u32() >>> 5;
    const low = this.#generator.u32() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }

  /**
   * Returns an integer in [0, maximum], for `maximum` below 2^53. Masks random bits to the bit length of
   * `maximum`, and rejects values that are larger than `maximum`.
   */
  interval(maximum: number): number {
    if (maximum === 0) return 0;
    if (maximum <= 0xffffffff) {
      const mask = 0xffffffff >>> Math.clz32(maximum);
      for (;;) {
        const value = (this.#generator.u32() & mask) >>> 0;
        if (value <= maximum) return value;
      }
    }
    // Two random 32-bit integers are drawn, the high half first. Only the high half is masked, because
    // `maximum` has more than 32 bits.
    const highMaximum = Math.floor(maximum / 4294967296);
    const highMask = 0xffffffff >>> Math.clz32(highMaximum);
    for (;;) {
      const high = (this.#generator.u32() & highMask) >>> 0;
      const value = high * 4294967296 + this.#generator.u32();
      if (value <= maximum) return value;
    }
  }

  /** Permutes `values` in place with the Fisher-Yates algorithm, from the end. */
  shuffle(values: Shufflable): void {
    for (let i = values.length - 1; i > 0; i--) {
      const j = this.interval(i);
      const kept = values[i]!;
      values[i] = values[j]!;
      values[j] = kept;
    }
  }

  /** Returns an integer in [low, high). */
  randint(low: number, high: number): number {
    if (!(high > low))
      throw new UsageError('MTL_DATA_RANDINT', `randint needs low < high, got ${low} and ${high}`);
    return low + this.interval(high - 1 - low);
  }

  /** Draws one of `values` with the given `probabilities`, whose sum need not be exactly 1. */
  choice<T>(values: readonly T[], probabilities: readonly number[]): T {
    if (values.length === 0 || values.length !== probabilities.length) {
      throw new UsageError(
        'MTL_DATA_CHOICE',
        `choice got ${values.length} values and ${probabilities.length} probabilities`,
        { expected: 'one probability for each value, and at least one' },
      );
    }
    const cumulative: number[] = [];
    let sum = 0;
    for (const probability of probabilities) {
      sum += probability;
      cumulative.push(sum);
    }
    const drawn = this.double();
    const found = cumulative.findIndex((bound) => bound / sum > drawn);
    return values[found < 0 ? values.length - 1 : found]!;
  }

  /**
   * Draws from a geometric distribution (the number of trials until the first success), with NumPy's
   * inversion method. The success probability must be below 1/3.
   */
  geometric(probability: number): number {
    if (!(probability > 0 && probability < 1 / 3)) {
      throw new UsageError('MTL_DATA_GEOMETRIC', `geometric(${probability}) is not supported`, {
        expected: 'a probability above 0 and below 1/3',
      });
    }
    return Math.ceil(Math.log1p(-this.double()) / Math.log(1 - probability));
  }
}

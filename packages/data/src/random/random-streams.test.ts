import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MersenneTwister, MersenneTwister64 } from './mersenne-twister.js';
import { RandomState } from './random-state.js';

describe('MersenneTwister', () => {
  it('gives the published stream of seed 1234', () => {
    const generator = new MersenneTwister(1234);
    expect(Array.from({ length: 5 }, () => generator.u32())).toEqual([
      822569775, 2137449171, 2671936806, 3512589365, 1880026316,
    ]);
  });

  it('gives the 10000th output that the C++ standard demands for the default seed', () => {
    const generator = new MersenneTwister(5489);
    for (let i = 1; i < 10000; i++) generator.u32();
    expect(generator.u32()).toBe(4123659995);
  });
});

describe('MersenneTwister64', () => {
  it('gives the published stream of seed 1235', () => {
    const generator = new MersenneTwister64(1235);
    expect([generator.u64(), generator.u64(), generator.u64()]).toEqual([
      12475983374653888083n,
      573922149886606219n,
      5802434057304372554n,
    ]);
  });

  it('gives the 10000th output that the C++ standard demands for the default seed', () => {
    const generator = new MersenneTwister64(5489);
    for (let i = 1; i < 10000; i++) generator.u64();
    expect(generator.u64()).toBe(9981545732273789042n);
  });

  it('reduces modulo any divisor as 64-bit arithmetic does', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 37 }), fc.nat(), (divisor, seed) => {
        const reduced = new MersenneTwister64(seed).modulo(divisor);
        expect(BigInt(reduced)).toBe(new MersenneTwister64(seed).u64() % BigInt(divisor));
      }),
    );
  });
});

describe('RandomState', () => {
  it('draws the float64 values of NumPy', () => {
    const state = new RandomState(1234);
    expect([state.double(), state.double(), state.double()]).toEqual([
      0.1915194503788923, 0.6221087710398319, 0.4377277390071145,
    ]);
  });

  it('shuffles as NumPy', () => {
    const values = Array.from({ length: 10 }, (_, i) => i);
    new RandomState(1234).shuffle(values);
    expect(values).toEqual([7, 2, 9, 1, 0, 8, 4, 5, 6, 3]);
  });

  it('keeps every draw inside its range', () => {
    fc.assert(
      fc.property(fc.nat({ max: 0xffffffff }), fc.nat({ max: 2 ** 40 }), (seed, maximum) => {
        const state = new RandomState(seed);
        const value = state.interval(maximum);
        expect(value).toBeGreaterThanOrEqual(0);
        expect(value).toBeLessThanOrEqual(maximum);
      }),
    );
  });

  it('refuses seeds that NumPy refuses', () => {
    for (const seed of [-1, 1.5, 2 ** 32, Number.NaN]) {
      expect(() => new RandomState(seed)).toThrow(expect.objectContaining({ code: 'MTL_DATA_SEED' }));
    }
  });
});

describe('RandomState against NumPy', () => {
  const streams = JSON.parse(
    readFileSync(new URL('../../fixtures/random-streams.json', import.meta.url), 'utf8'),
  ) as {
    seed: number;
    randint: number[];
    doubles: number[];
    choice: number[];
    geometric: number[];
    shuffle: string;
    after: number;
  }[];

  it.each(streams.map((stream) => [stream.seed, stream] as const))(
    'draws the same stream from seed %i',
    (seed, stream) => {
      const state = new RandomState(seed);
      expect([1, 2, 7, 100, 65536].map((n) => state.randint(3, 3 + n))).toEqual(stream.randint);
      expect(Array.from({ length: 4 }, () => state.double())).toEqual(stream.doubles);
      const choose = () => state.choice([10, 20, 30, 40], [0.48, 0.24, 0.16, 0.12]);
      expect(Array.from({ length: 12 }, choose)).toEqual(stream.choice);
      expect(Array.from({ length: 12 }, () => state.geometric(0.2))).toEqual(stream.geometric);
      const permutation = Int32Array.from({ length: 1000 }, (_, i) => i);
      state.shuffle(permutation);
      expect(createHash('md5').update(permutation).digest('hex')).toBe(stream.shuffle);
      expect(state.double()).toBe(stream.after);
    },
  );
});

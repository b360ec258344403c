import { bfloat16Bits, float16Bits, float16Value } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { encodeFloats } from './float-bytes.js';

/**
 * Float32 bits of all exponents and both signs, next to what float16 numbers are, and halfway between them.
 */
function* hardBits(): Generator<number> {
  const value = new Float32Array(1);
  const bits = new Uint32Array(value.buffer);
  for (let half = 0; half < 0x7c01; half++) {
    for (const number of [float16Value(half), (float16Value(half) + float16Value(half + 1)) / 2]) {
      value[0] = number;
      const own = bits[0]!;
      for (const near of [own - 1, own, own + 1]) yield* [near >>> 0, (near | 0x80000000) >>> 0];
    }
  }
  for (let exponent = 0; exponent < 256; exponent++) {
    for (const fraction of [0, 1, 0xfff, 0x1000, 0x1001, 0x2000, 0x3000, 0x400000, 0x7fffff]) {
      const own = (exponent << 23) | fraction;
      yield* [own >>> 0, (own | 0x80000000) >>> 0];
    }
  }
}

describe('encodeFloats', () => {
  it.each([
    ['F16', float16Bits],
    ['BF16', bfloat16Bits],
  ] as const)('rounds to %s as the conversion of one number does', (dtype, round) => {
    const values = new Float32Array(Uint32Array.from(hardBits()).buffer);
    const found = new Uint16Array(encodeFloats(values, dtype).buffer);
    const wrong = [...values.keys()].filter((index) => found[index] !== round(values[index]!));
    expect(wrong.map((index) => values[index])).toEqual([]);
  });

  it('converts values from the middle of an array', () => {
    const values = Float32Array.of(9, 0.1, -2).subarray(1);
    expect(new Uint16Array(encodeFloats(values, 'F16').buffer)).toEqual(
      Uint16Array.of(float16Bits(values[0]!), float16Bits(-2)),
    );
  });
});

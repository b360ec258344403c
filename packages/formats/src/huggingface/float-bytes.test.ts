import { cast, float16Value, Tensor } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { encodeFloats } from './float-bytes.js';

/**
 * Yields float32 bit patterns of all exponents and both signs that are close to a float16 value, or halfway
 * between two float16 values.
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

/** Returns the bits to which the reference kernels round the given values. */
function castByReference(values: Float32Array, dtype: 'float16' | 'bfloat16'): Uint16Array {
  const [shape, device] = [[values.length], 'reference'] as const;
  using input = Tensor.from(values, { shape, dtype: 'float32', device });
  using output = Tensor.empty({ shape, dtype, device });
  cast({ output, input });
  return output.read<typeof dtype>();
}

describe('encodeFloats', () => {
  it.each([
    ['F16', 'float16', 0x7c00],
    ['BF16', 'bfloat16', 0x7f80],
  ] as const)('rounds to %s as the reference kernels do', (dtype, name, infinity) => {
    const values = new Float32Array(Uint32Array.from(hardBits()).buffer);
    const found = new Uint16Array(encodeFloats(values, dtype).buffer);
    const expected = castByReference(values, name);
    const isNan = (bits: number): boolean => (bits & 0x7fff) > infinity;
    const wrong = [...values.keys()].filter(
      (index) => found[index] !== expected[index] && !(isNan(found[index]!) && isNan(expected[index]!)),
    );
    expect(wrong.map((index) => values[index])).toEqual([]);
  });

  it('converts values from the middle of an array', () => {
    const values = Float32Array.of(9, 0.1, -2).subarray(1);
    expect(new Uint16Array(encodeFloats(values, 'F16').buffer)).toEqual(castByReference(values, 'float16'));
  });
});

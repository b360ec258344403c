import { expect, it } from 'vitest';
import { equalBytes } from './equal-bytes.mjs';

it('finds that typed arrays of one type and the same bytes are equal, and leaves the others to vitest', () => {
  expect(equalBytes(Float32Array.of(1, Number.NaN), Float32Array.of(1, Number.NaN))).toBe(true);
  expect(equalBytes(Uint8Array.of(1, 2, 3).subarray(1), Uint8Array.of(2, 3))).toBe(true);
  expect(equalBytes(Uint8Array.of(1, 2), Uint8Array.of(1, 3))).toBeUndefined();
  expect(equalBytes(Float32Array.of(0), Uint32Array.of(0))).toBeUndefined();
  expect(equalBytes(Buffer.of(1), Uint8Array.of(1))).toBeUndefined();
  expect(equalBytes([1], [1])).toBeUndefined();
});

it('is used by toEqual, also inside of other values, and differences still fail', () => {
  // vitest's own comparison would find the additional property, which only one array has
  const marked = Object.assign(Uint8Array.of(1, 2), { mark: true });
  expect({ bytes: marked }).toEqual({ bytes: Uint8Array.of(1, 2) });
  expect(Float32Array.of(0)).not.toEqual(Float32Array.of(-0));
  expect({ bytes: Uint8Array.of(1, 2) }).not.toEqual({ bytes: Uint8Array.of(1, 3) });
});

import type { Dtype } from '@mtl/layout';
import { describe, expect, it } from 'vitest';
import { dtypeBytes } from './dtype.js';
import { scanPartBytes, ValueScan } from './finite-values.js';

/**
 * Bit patterns for each dtype: finite values, including the largest magnitude of both signs, and values that
 * are not finite.
 */
const cases: Partial<Record<Dtype, { finite: bigint[]; others: [bits: bigint, value: number][] }>> = {
  F64: {
    finite: [0n, 1n, 0x8000_0000_0000_0000n, 0x7fef_ffff_ffff_ffffn, 0xffef_ffff_ffff_ffffn, 0xffff_ffffn],
    others: [
      [0x7ff0_0000_0000_0000n, Infinity],
      [0xfff0_0000_0000_0000n, -Infinity],
      [0x7ff8_0000_0000_0000n, NaN],
      [0xfff0_0000_0000_0001n, NaN],
    ],
  },
  F32: {
    finite: [0n, 1n, 0x8000_0000n, 0x7f7f_ffffn, 0xff7f_ffffn],
    others: [
      [0x7f80_0000n, Infinity],
      [0xff80_0000n, -Infinity],
      [0x7fc0_0000n, NaN],
      [0xff80_0001n, NaN],
    ],
  },
  BF16: {
    finite: [0n, 1n, 0x8000n, 0x7f7fn, 0xff7fn],
    others: [
      [0x7f80n, Infinity],
      [0xff80n, -Infinity],
      [0x7f81n, NaN],
      [0xffffn, NaN],
    ],
  },
  F16: {
    finite: [0n, 1n, 0x8000n, 0x7bffn, 0xfbffn],
    others: [
      [0x7c00n, Infinity],
      [0xfc00n, -Infinity],
      [0x7c01n, NaN],
      [0xffffn, NaN],
    ],
  },
  F8_E5M2: {
    finite: [0n, 1n, 0x80n, 0x7bn, 0xfbn],
    others: [
      [0x7cn, Infinity],
      [0xfcn, -Infinity],
      [0x7dn, NaN],
      [0xffn, NaN],
    ],
  },
  F8_E4M3: {
    finite: [0n, 1n, 0x80n, 0x7en, 0xfen],
    others: [
      [0x7fn, NaN],
      [0xffn, NaN],
    ],
  },
};
const dtypes = Object.entries(cases).map(([dtype, bits]) => ({ dtype: dtype as Dtype, ...bits }));

/** Returns the bytes of `length` elements, which repeat the values in `bits`. */
function makeBytes(dtype: Dtype, bits: readonly bigint[], length: number): Buffer {
  const size = dtypeBytes[dtype];
  const bytes = Buffer.alloc(length * size);
  for (let index = 0; index < length; index++) put(bytes, dtype, index, bits[index % bits.length]!);
  return bytes;
}

function put(bytes: Buffer, dtype: Dtype, index: number, bits: bigint): void {
  const size = dtypeBytes[dtype];
  for (let byte = 0; byte < size; byte++)
    bytes[index * size + byte] = Number((bits >> BigInt(8 * byte)) & 255n);
}

function scanned(dtype: Dtype, bytes: Uint8Array, limit?: number) {
  const scan = new ValueScan(dtype, limit);
  scan.update(bytes);
  return scan.found;
}

describe.for(dtypes)('values of $dtype', ({ dtype, finite, others }) => {
  it('are found at every place, and only if they are not finite', () => {
    // enough values for one pass of the vector loop, and a remainder that is too short for another pass
    const length = 64 / dtypeBytes[dtype] + 3;
    const bytes = makeBytes(dtype, finite, length);
    expect(scanned(dtype, bytes)).toBeUndefined();
    for (let index = 0; index < length; index++) {
      const [bits, value] = others[index % others.length]!;
      const copy = Buffer.from(bytes);
      put(copy, dtype, index, bits);
      expect(scanned(dtype, copy)).toEqual({ index, value });
    }
  });

  it('are found in later parts and updates, the first of several', () => {
    const perPiece = scanPartBytes / dtypeBytes[dtype];
    const bytes = makeBytes(dtype, finite, 3 * perPiece + 5);
    put(bytes, dtype, 3 * perPiece + 4, others[0]![0]);
    put(bytes, dtype, 2 * perPiece + 1, others[1]![0]);
    const scan = new ValueScan(dtype);
    for (let start = 0; start < bytes.length; start += 40_000)
      scan.update(bytes.subarray(start, start + 40_000));
    expect(scan.found).toEqual({ index: 2 * perPiece + 1, value: others[1]![1] });
  });
});

describe('a scan', () => {
  it('leaves integers alone', () => {
    for (const dtype of ['I64', 'U32', 'I16', 'U8', 'BOOL'] as const) {
      expect(scanned(dtype, new Uint8Array(64).fill(255))).toBeUndefined();
    }
  });

  it('finds both parts of complex numbers', () => {
    const values = new Float32Array(8);
    values[5] = Number.NaN;
    expect(scanned('C64', new Uint8Array(values.buffer))).toEqual({ index: 2, value: Number.NaN });
  });

  it('finds magnitudes from a limit on', () => {
    const values = Float32Array.of(1e18, -(2 ** 64) * (1 - 2 ** -24), 0);
    const bytes = new Uint8Array(values.buffer);
    expect(scanned('F32', bytes, 2 ** 64)).toBeUndefined();
    values[2] = -(2 ** 64);
    expect(scanned('F32', bytes, 2 ** 64)).toEqual({ index: 2, value: -(2 ** 64) });
    values[1] = Number.NaN;
    expect(scanned('F32', bytes, 2 ** 64)).toEqual({ index: 1, value: Number.NaN });
  });

  it('does not depend on what was scanned before', () => {
    const bad = new Uint8Array(Float32Array.of(Number.NaN, 1, Number.NaN).buffer);
    expect(scanned('F32', bad)?.index).toBe(0);
    expect(scanned('F32', new Uint8Array(4))).toBeUndefined();
  });
});

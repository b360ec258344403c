import type { ByteCursor } from './byte-cursor.js';

/**
 * Decodes `count` integers of `bitWidth` bits: runs of one value, and bit-packed groups of eight (Parquet's
 * RLE / bit-packing hybrid). Throws an Error where a run is empty or the bytes end before the count.
 */
export function readHybridIntegers(options: {
  readonly cursor: ByteCursor;
  readonly bitWidth: number;
  readonly count: number;
}): Uint32Array {
  const { cursor, bitWidth, count } = options;
  if (bitWidth > 32) throw new Error(`it has integers of ${bitWidth} bits`);
  const values = new Uint32Array(count);
  let filled = 0;
  while (filled < count) {
    const header = cursor.varint();
    const length = header % 2 === 0 ? header / 2 : ((header - 1) / 2) * 8;
    if (length === 0) throw new Error('it has a run of no values');
    if (header % 2 === 0) {
      if (length > count - filled) throw new Error(`it has a run of ${length} values beyond its end`);
      values.fill(cursor.unsigned(Math.ceil(bitWidth / 8)), filled, filled + length);
      filled += length;
      continue;
    }
    // The last group is filled up to eight; its padding counts no value.
    if (length - 7 > count - filled) throw new Error(`it has a run of ${length} values beyond its end`);
    const wanted = Math.min(length, count - filled);
    unpackBits(cursor.take((length / 8) * bitWidth), bitWidth, values.subarray(filled, filled + wanted));
    filled += wanted;
  }
  return values;
}

/** Integers of `bitWidth` bits each, the least significant bit first. */
function unpackBits(bytes: Uint8Array, bitWidth: number, values: Uint32Array): void {
  let position = 0;
  for (let i = 0; i < values.length; i++) {
    let value = 0;
    for (let done = 0; done < bitWidth; ) {
      const bit = position & 7;
      const take = Math.min(8 - bit, bitWidth - done);
      value |= ((bytes[position >>> 3]! >>> bit) & ((1 << take) - 1)) << done;
      done += take;
      position += take;
    }
    values[i] = value;
  }
}

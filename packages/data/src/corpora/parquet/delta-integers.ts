import type { ByteCursor } from './byte-cursor.js';

// What writers use is 128 values in 4 miniblocks; a block of millions is damage.
const maximumBlockValues = 1 << 20;

/**
 * Decodes `count` lengths in DELTA_BINARY_PACKED: blocks of miniblocks of bit-packed differences. Throws an
 * Error where their number, a length below zero, or the end of the bytes does not fit.
 */
export function readDeltaLengths(cursor: ByteCursor, count: number): Float64Array {
  const blockValues = cursor.varint();
  const miniblocks = cursor.varint();
  const total = cursor.varint();
  const miniblockValues = blockValues / miniblocks;
  if (blockValues === 0 || blockValues > maximumBlockValues || miniblockValues % 32 !== 0) {
    throw new Error(`it has blocks of ${blockValues} values in ${miniblocks} miniblocks`);
  }
  if (total !== count) throw new Error(`it has ${total} lengths for ${count} values`);
  const values = new Float64Array(count);
  let value = cursor.zigzag();
  for (let filled = 0; filled < count; ) {
    if (filled === 0) values[filled++] = checked(value);
    if (filled === count) break;
    const least = cursor.zigzag();
    const widths = cursor.take(miniblocks);
    for (const width of widths) {
      // Miniblocks behind the last value have no bytes.
      if (filled === count) break;
      const end = Math.min(count, filled + miniblockValues);
      const bits = new BitReader(cursor.take((miniblockValues / 8) * width), width);
      while (filled < end) {
        value += least + bits.next();
        values[filled++] = checked(value);
      }
    }
  }
  return values;
}

function checked(length: number): number {
  if (length >= 0 && length <= 0x7fffffff) return length;
  throw new Error(`it has a text of ${length} bytes`);
}

class BitReader {
  #position = 0;
  constructor(
    readonly bytes: Uint8Array,
    readonly width: number,
  ) {
    if (width > 53) throw new Error(`it has differences of ${width} bits`);
  }

  next(): number {
    let value = 0;
    for (let done = 0; done < this.width; ) {
      const bit = this.#position & 7;
      const take = Math.min(8 - bit, this.width - done);
      value += ((this.bytes[this.#position >>> 3]! >>> bit) & ((1 << take) - 1)) * 2 ** done;
      done += take;
      this.#position += take;
    }
    return value;
  }
}

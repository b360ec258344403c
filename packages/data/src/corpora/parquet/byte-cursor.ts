/** Reads numbers and slices from bytes, in order; throws an Error instead of reading past their end. */
export class ByteCursor {
  readonly bytes: Buffer;
  position: number;

  constructor(bytes: Uint8Array, position = 0) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.position = position;
  }

  /** Bytes behind the position. */
  get remaining(): number {
    return this.bytes.length - this.position;
  }

  /** The next `length` bytes, not copied. */
  take(length: number): Buffer {
    const start = this.skip(length);
    return this.bytes.subarray(start, start + length);
  }

  /** Passes over `length` bytes; returns where they start. */
  skip(length: number): number {
    if (!(length >= 0 && length <= this.remaining)) {
      throw new Error(`it ends ${length - this.remaining} bytes early`);
    }
    const start = this.position;
    this.position += length;
    return start;
  }

  /** An unsigned little-endian integer of 0 to 4 bytes. */
  unsigned(length: number): number {
    const start = this.skip(length);
    return length === 0 ? 0 : this.bytes.readUIntLE(start, length);
  }

  /** An unsigned varint (LEB128) below 2^53. */
  varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.unsigned(1);
      value += (byte & 127) * scale;
      if (!Number.isSafeInteger(value)) throw new Error('it has an integer that is too large');
      if (byte < 128) return value;
    }
  }

  /** A signed varint in zigzag order. */
  zigzag(): number {
    const value = this.varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

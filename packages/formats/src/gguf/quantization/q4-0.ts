import { float16Bits } from '@mtl/kernels';
import { type Codec, maxFloat16 } from './codec.js';
import { valueOfLargestMagnitude } from './float32-arithmetic.js';

const { fround } = Math;
const blockValues = 32;
const blockBytes = 18;

/**
 * The codec for Q4_0: blocks of 32 values with a float16 scale d and 32 levels q of 4 bits. A value is `d *
 * (q - 8)`. The scale maps the value of largest magnitude to -8. The low half of each byte belongs to the
 * first 16 values. See ggml's block_q4_0 and its reference quantization.
 */
export const q4Zero: Codec = {
  maxAbsolute: maxFloat16 * 8,
  encode(values) {
    const bytes = new Uint8Array((values.length / blockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += blockValues, at += blockBytes) {
      const scale = fround(valueOfLargestMagnitude(values, start, start + blockValues) / -8);
      const inverse = scale === 0 ? 0 : fround(1 / scale);
      const level = (index: number): number =>
        Math.min(15, Math.trunc(fround(fround(values[start + index]! * inverse) + 8.5)));
      view.setUint16(at, float16Bits(scale), true);
      for (let index = 0; index < 16; index++)
        bytes[at + 2 + index] = level(index) | (level(index + 16) << 4);
    }
    return bytes;
  },
};

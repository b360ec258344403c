import { float16Bits, float16Value } from '@mtl/kernels';
import { type Codec, maxFloat16 } from './codec.js';
import { largestMagnitude, roundAway } from './float32-arithmetic.js';

const blockValues = 32;
const blockBytes = 34;

/**
 * The codec for Q8_0: blocks of 32 values with a float16 scale d and 32 signed bytes q. A value is `d * q`.
 * The scale maps the largest magnitude to 127. See ggml's block_q8_0 and its reference quantization.
 */
export const q8Zero: Codec = {
  maxAbsolute: maxFloat16 * 127,
  encode(values) {
    const bytes = new Uint8Array((values.length / blockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += blockValues, at += blockBytes) {
      const scale = Math.fround(largestMagnitude(values, start, start + blockValues) / 127);
      const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
      view.setUint16(at, float16Bits(scale), true);
      for (let index = 0; index < blockValues; index++) {
        view.setInt8(at + 2 + index, roundAway(Math.fround(values[start + index]! * inverse)));
      }
    }
    return bytes;
  },
  decode(bytes, values) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let start = 0, at = 0; start < values.length; start += blockValues, at += blockBytes) {
      const scale = float16Value(view.getUint16(at, true));
      for (let index = 0; index < blockValues; index++) {
        values[start + index] = scale * view.getInt8(at + 2 + index);
      }
    }
  },
};

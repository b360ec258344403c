import { float16Bits } from '@mtl/kernels';
import { type Codec, maxFloat16 } from './codec.js';
import { setFiveBitLevels } from './five-bit-levels.js';
import { valueOfLargestMagnitude } from './float32-arithmetic.js';

const { fround } = Math;
const blockValues = 32;
const blockBytes = 22;

/**
 * The codec for Q5_0: blocks of 32 values with a float16 scale d, followed by the fifth bits and the low 4
 * bits of 32 levels q. A value is `d * (q - 16)`. The scale maps the value of largest magnitude to -16. See
 * ggml's block_q5_0 and its reference quantization.
 */
export const q5Zero: Codec = {
  maxAbsolute: maxFloat16 * 16,
  encode(values) {
    const bytes = new Uint8Array((values.length / blockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += blockValues, at += blockBytes) {
      const scale = fround(valueOfLargestMagnitude(values, start, start + blockValues) / -16);
      const inverse = scale === 0 ? 0 : fround(1 / scale);
      view.setUint16(at, float16Bits(scale), true);
      setFiveBitLevels(view, at + 2, (index) =>
        Math.min(31, Math.trunc(fround(fround(values[start + index]! * inverse) + 16.5))),
      );
    }
    return bytes;
  },
};

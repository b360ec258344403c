import { float16Bits } from '@mtl/kernels';
import { type Codec, maxFloat16 } from './codec.js';
import { setFiveBitLevels } from './five-bit-levels.js';

const { fround } = Math;
const blockValues = 32;
const blockBytes = 24;

/**
 * The codec for Q5_1: blocks of 32 values with a float16 scale d and minimum m, followed by the fifth bits
 * and the low 4 bits of 32 levels q. A value is `d * q + m`. See ggml's block_q5_1 and its reference
 * quantization.
 */
export const q5One: Codec = {
  maxAbsolute: maxFloat16,
  encode(values) {
    const bytes = new Uint8Array((values.length / blockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += blockValues, at += blockBytes) {
      const block = values.subarray(start, start + blockValues);
      const minimum = Math.min(...block);
      const scale = fround(fround(Math.max(...block) - minimum) / 31);
      const inverse = scale === 0 ? 0 : fround(1 / scale);
      view.setUint16(at, float16Bits(scale), true);
      view.setUint16(at + 2, float16Bits(minimum), true);
      setFiveBitLevels(view, at + 4, (index) =>
        Math.trunc(fround(fround(fround(block[index]! - minimum) * inverse) + 0.5)),
      );
    }
    return bytes;
  },
};

import { encodeAffineBlock, superBlockValues } from './affine-blocks.js';
import { type Codec, maxFloat16 } from './codec.js';

const blockBytes = 176;
const search = { maxLevel: 31, firstStep: -0.5, numSteps: 15 };

/**
 * The codec for Q5_K: blocks of 256 values as in Q4_K, but with levels of 5 bits. First, 32 bytes contain the
 * fifth bits: each byte has one bit for each sub-block. Then follow the low 4 bits. See ggml's block_q5_K and
 * its reference quantization.
 */
export const q5K: Codec = {
  maxAbsolute: maxFloat16,
  encode(values) {
    const bytes = new Uint8Array((values.length / superBlockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += superBlockValues, at += blockBytes) {
      const block = values.subarray(start, start + superBlockValues);
      const levels = encodeAffineBlock(block, { view, at, search });
      for (let index = 0; index < superBlockValues / 2; index++) {
        const first = 64 * Math.floor(index / 32) + (index % 32);
        bytes[at + 48 + index] = (levels[first]! & 15) | ((levels[first + 32]! & 15) << 4);
      }
      for (const [index, level] of levels.entries()) {
        bytes[at + 16 + (index % 32)]! |= (level >> 4) << Math.floor(index / 32);
      }
    }
    return bytes;
  },
};

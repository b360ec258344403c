import { encodeAffineBlock, superBlockValues } from './affine-blocks.js';
import { type Codec, maxFloat16 } from './codec.js';

const blockBytes = 144;
const search = { maxLevel: 15, firstStep: -1, numSteps: 20 };

/**
 * The codec for Q4_K: blocks of 256 values in 8 sub-blocks. A block has two float16 units (one for scales,
 * one for offsets), 12 bytes with 8 scales and 8 offsets of 6 bits, and 256 levels of 4 bits. See ggml's
 * block_q4_K and its reference quantization.
 */
export const q4K: Codec = {
  maxAbsolute: maxFloat16,
  encode(values) {
    const bytes = new Uint8Array((values.length / superBlockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += superBlockValues, at += blockBytes) {
      const block = values.subarray(start, start + superBlockValues);
      const levels = encodeAffineBlock(block, { view, at, search });
      for (let index = 0; index < superBlockValues / 2; index++) {
        // the low halves of 32 bytes contain 32 levels, and the high halves of the same bytes contain the
        // following 32 levels
        const first = 64 * Math.floor(index / 32) + (index % 32);
        bytes[at + 16 + index] = levels[first]! | (levels[first + 32]! << 4);
      }
    }
    return bytes;
  },
};

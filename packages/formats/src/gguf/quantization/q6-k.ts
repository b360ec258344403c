import { float16Bits, float16Value } from '@mtl/kernels';
import { superBlockValues } from './affine-blocks.js';
import { type Codec, maxFloat16 } from './codec.js';
import { clamp, roundEven, valueOfLargestMagnitude } from './float32-arithmetic.js';

const { abs, fround } = Math;
const blockBytes = 210;
const subBlockValues = 16;
const highBits = 128;
const scalesStart = 192;
const unitStart = 208;

// if all magnitudes in a block are below this value, ggml treats the block as zeros
const least = fround(1e-15);

const computeLevel = (value: number, inverse: number): number =>
  clamp(roundEven(fround(inverse * value)), -32, 31);

/**
 * The scale of 16 values, and the factor that converts values to levels. If the factor is undefined, all
 * levels are 0.
 */
interface Scale {
  readonly scale: number;
  readonly inverse: number | undefined;
}

/**
 * Returns the scale of 16 values. Each candidate maps the value of largest magnitude to about -32. The best
 * candidate has the smallest squared error, in which values are weighted by their squares.
 */
function chooseScale(values: Float32Array): Scale {
  const largest = valueOfLargestMagnitude(values, 0, values.length);
  if (abs(largest) < least) return { scale: 0, inverse: undefined };
  const fitted = (inverse: number): { readonly products: number; readonly squares: number } => {
    let [products, squares] = [0, 0];
    for (let index = 0; index < values.length; index++) {
      const value = values[index]!;
      const level = computeLevel(value, inverse);
      const weight = fround(value * value);
      products = fround(products + fround(fround(weight * value) * level));
      squares = fround(squares + fround(fround(weight * level) * level));
    }
    return { products, squares };
  };
  let chosen = fround(-32 / largest);
  const first = fitted(chosen);
  let scale = first.squares === 0 ? 0 : fround(first.products / first.squares);
  let best = fround(scale * first.products);
  const stepSize = fround(0.1);
  for (let step = -9; step <= 9; step++) {
    if (step === 0) continue;
    const inverse = fround(-fround(32 + fround(stepSize * step)) / largest);
    const { products, squares } = fitted(inverse);
    if (squares > 0 && fround(products * products) > fround(best * squares)) {
      scale = fround(products / squares);
      best = fround(scale * products);
      chosen = inverse;
    }
  }
  return { scale, inverse: chosen };
}

/** Returns the scales of a block's sub-blocks. */
const chooseScales = (block: Float32Array): readonly Scale[] =>
  Array.from({ length: superBlockValues / subBlockValues }, (_, index) =>
    chooseScale(block.subarray(index * subBlockValues, (index + 1) * subBlockValues)),
  );

/** Writes the scales of a block. Returns false if all of the block's values count as zeros. */
function encodeScales(found: readonly Scale[], view: DataView, at: number): boolean {
  const scales = Float32Array.from(found, ({ scale }) => scale);
  const largest = valueOfLargestMagnitude(scales, 0, scales.length);
  if (abs(largest) < least) return false;
  const inverse = fround(-128 / largest);
  view.setUint16(at + unitStart, float16Bits(fround(1 / inverse)), true);
  for (const [index, scale] of scales.entries()) {
    view.setInt8(at + scalesStart + index, Math.min(127, roundEven(fround(inverse * scale))));
  }
  return true;
}

/** Quantizes a block to levels from 0 to 63, using the scales that are stored in `view` from byte `at` on. */
function computeLevels(
  block: Float32Array,
  { found, view, at }: { readonly found: readonly Scale[]; readonly view: DataView; readonly at: number },
): Uint8Array {
  const unit = float16Value(view.getUint16(at + unitStart, true));
  return Uint8Array.from(block, (value, index) => {
    const sub = Math.floor(index / subBlockValues);
    const scale = fround(unit * view.getInt8(at + scalesStart + sub));
    if (scale !== 0) return 32 + clamp(roundEven(fround(value / scale)), -32, 31);
    // without an inverse, the sub-block's scale is 0, so its values are 0 regardless of the levels
    const { inverse } = found[sub]!;
    return inverse === undefined ? 0 : 32 + computeLevel(value, inverse);
  });
}

/**
 * The codec for Q6_K: blocks of 256 values in 16 sub-blocks. A block has the low 4 bits and the high 2 bits
 * of 256 levels q, 16 signed bytes s and a float16 unit d. A value is `d * s * (q - 32)`. See ggml's
 * block_q6_K and its reference quantization.
 */
export const q6K: Codec = {
  maxAbsolute: maxFloat16,
  encode(values) {
    const bytes = new Uint8Array((values.length / superBlockValues) * blockBytes);
    const view = new DataView(bytes.buffer);
    for (let start = 0, at = 0; start < values.length; start += superBlockValues, at += blockBytes) {
      const block = values.subarray(start, start + superBlockValues);
      const found = chooseScales(block);
      if (!encodeScales(found, view, at)) continue;
      const levels = computeLevels(block, { found, view, at });
      for (let index = 0; index < superBlockValues / 2; index++) {
        // 64 bytes contain 128 levels: the low halves contain two rows of 32 levels, and the high halves
        // contain the next two rows
        const first = 128 * Math.floor(index / 64) + (index % 64);
        bytes[at + index] = (levels[first]! & 15) | ((levels[first + 64]! & 15) << 4);
      }
      for (const [index, level] of levels.entries()) {
        const place = highBits + 32 * Math.floor(index / 128) + (index % 32);
        bytes[at + place]! |= (level >> 4) << (2 * (Math.floor(index / 32) % 4));
      }
    }
    return bytes;
  },
};

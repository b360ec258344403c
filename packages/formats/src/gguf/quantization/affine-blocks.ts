import { float16Bits, float16Value } from '@mtl/kernels';
import { type AffineLevels, type LevelSearch, searchAffineLevels } from './affine-levels.js';
import { clamp, roundEven } from './float32-arithmetic.js';

const { fround } = Math;

/** The number of values in a block of ggml's K types. */
export const superBlockValues = 256;
const subBlockValues = 32;

/** Packs the scales and offsets of the 8 sub-blocks into 12 bytes, 6 bits each, in ggml's order. */
function packSixBits(
  view: DataView,
  at: number,
  scales: readonly number[],
  offsets: readonly number[],
): void {
  for (let index = 0; index < 4; index++) {
    const [scale, offset] = [scales[index + 4]!, offsets[index + 4]!];
    view.setUint8(at + index, scales[index]! | ((scale >> 4) << 6));
    view.setUint8(at + 4 + index, offsets[index]! | ((offset >> 4) << 6));
    view.setUint8(at + 8 + index, (scale & 15) | ((offset & 15) << 4));
  }
}

/**
 * Rounds values to multiples of a unit, which is the largest value divided by 63. The multiples are 0 to 63.
 */
function inSixBits(values: readonly number[]): {
  readonly unit: number;
  readonly multiples: readonly number[];
} {
  const largest = Math.max(0, ...values);
  const inverse = largest > 0 ? fround(63 / largest) : 0;
  return {
    unit: float16Bits(fround(largest / 63)),
    multiples: values.map((value) => Math.min(63, roundEven(fround(inverse * value)))),
  };
}

/**
 * Writes the bytes that Q4_K and Q5_K have in common: a block's float16 units d and m, and 12 bytes that
 * contain the multiples s and o of its sub-blocks. Returns the levels q of the 256 values. A level stands for
 * the value `d * s * q - m * o`.
 */
export function encodeAffineBlock(
  block: Float32Array,
  { view, at, search }: { readonly view: DataView; readonly at: number; readonly search: LevelSearch },
): Uint8Array {
  const found: AffineLevels[] = [];
  for (let start = 0; start < superBlockValues; start += subBlockValues) {
    found.push(searchAffineLevels(block.subarray(start, start + subBlockValues), search));
  }
  const scales = inSixBits(found.map(({ scale }) => scale));
  const offsets = inSixBits(found.map(({ offset }) => offset));
  view.setUint16(at, scales.unit, true);
  view.setUint16(at + 2, offsets.unit, true);
  packSixBits(view, at + 4, scales.multiples, offsets.multiples);
  const [scaleUnit, offsetUnit] = [float16Value(scales.unit), float16Value(offsets.unit)];
  const levels = new Uint8Array(superBlockValues);
  for (let index = 0; index < superBlockValues; index++) {
    const sub = Math.floor(index / subBlockValues);
    const scale = fround(scaleUnit * scales.multiples[sub]!);
    const offset = fround(offsetUnit * offsets.multiples[sub]!);
    // if the scale is 0, every value of the sub-block is -offset regardless of the levels; as in ggml's
    // reference, the levels from the search are kept
    levels[index] =
      scale === 0
        ? found[sub]!.levels[index % subBlockValues]!
        : clamp(roundEven(fround(fround(block[index]! + offset) / scale)), 0, search.maxLevel);
  }
  return levels;
}

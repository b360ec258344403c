/**
 * Float32 arithmetic as in ggml's reference quantization: every result is rounded to float32, so that blocks
 * are equal byte for byte.
 */

const { abs, fround } = Math;

/** Returns the largest magnitude in values[start, end). */
export function largestMagnitude(values: Float32Array, start: number, end: number): number {
  let largest = 0;
  for (let index = start; index < end; index++) largest = Math.max(largest, abs(values[index]!));
  return largest;
}

/**
 * Returns the value with the largest magnitude in values[start, end), including its sign. If several
 * magnitudes are equal, returns the first of these values.
 */
export function valueOfLargestMagnitude(values: Float32Array, start: number, end: number): number {
  let found = 0;
  for (let index = start; index < end; index++) {
    if (abs(values[index]!) > abs(found)) found = values[index]!;
  }
  return found;
}

/** Rounds to the nearest integer; halves are rounded away from zero. */
export const roundAway = (value: number): number =>
  value < 0 ? -Math.floor(0.5 - value) : Math.floor(value + 0.5);

// when 1.5 * 2^23 is added to a float32 value, the sum has no fraction bits, so the addition rounds to an
// integer
const shift = 12_582_912;

/** Rounds a float32 below 2^22 to the nearest integer; halves are rounded to the nearest even integer. */
export const roundEven = (value: number): number => fround(fround(value) + shift) - shift;

/** Returns `value` within [least, most]. */
export const clamp = (value: number, least: number, most: number): number =>
  Math.min(Math.max(value, least), most);

// Set up in every test file: typed arrays of the same bytes are equal, which takes a moment; by itself,
// `toEqual` compares their elements one by one, and takes seconds for the weights of a small model.
import { expect } from 'vitest';

const viewBytes = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const isTypedArray = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView);

/**
 * Returns true for the same bytes, otherwise undefined: vitest then compares the elements and names the
 * different ones.
 */
export function equalBytes(left, right) {
  if (!isTypedArray(left) || !isTypedArray(right) || left.constructor !== right.constructor) return undefined;
  return viewBytes(left).equals(viewBytes(right)) ? true : undefined;
}

expect.addEqualityTesters([equalBytes]);

// A module that every test file loads. It makes `toEqual` compare typed arrays by their bytes, which is fast.
// Without it, `toEqual` compares the elements one by one, which takes seconds for the weights of a small
// model.
import { expect } from 'vitest';

const viewBytes = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const isTypedArray = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView);

/**
 * Returns true if two typed arrays have the same type and equal bytes; otherwise undefined, so that vitest
 * itself compares the elements and names the differences.
 */
export function equalBytes(left, right) {
  if (!isTypedArray(left) || !isTypedArray(right) || left.constructor !== right.constructor) return undefined;
  return viewBytes(left).equals(viewBytes(right)) ? true : undefined;
}

expect.addEqualityTesters([equalBytes]);

// Every test file loads this module. It makes typed arrays equal if their bytes are equal, which is fast.
// Without it, `toEqual` compares the elements one by one, which takes seconds for the weights of a small
// model.
import { expect } from 'vitest';

const viewBytes = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const isTypedArray = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView);

/**
 * Returns true for equal bytes, otherwise undefined, so that vitest compares the elements and names the
 * elements that differ.
 */
export function equalBytes(left, right) {
  if (!isTypedArray(left) || !isTypedArray(right) || left.constructor !== right.constructor) return undefined;
  return viewBytes(left).equals(viewBytes(right)) ? true : undefined;
}

expect.addEqualityTesters([equalBytes]);

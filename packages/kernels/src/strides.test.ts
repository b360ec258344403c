import { describe, expect, it } from 'vitest';
import { contiguousStrides, reshapedStrides } from './strides.js';

/** Returns the memory index of every element of a view. */
function listElements(shape: readonly number[], strides: readonly number[]): number[] {
  return shape.reduceRight(
    (inner, size, dim) =>
      Array.from({ length: size }, (_, index) => inner.map((at) => index * strides[dim]! + at)).flat(),
    [0],
  );
}

describe('strides of a strided view in another shape', () => {
  it.each<[number[], number[], number[]]>([
    [[4, 6], [6, 1], [24]],
    [
      [4, 6],
      [12, 1],
      [2, 2, 3, 2],
    ],
    [
      [4, 6],
      [12, 1],
      [4, 1, 6, 1],
    ],
    [
      [4, 2, 3],
      [12, 3, 1],
      [4, 6],
    ],
    [
      [4, 2, 3],
      [12, 3, 1],
      [2, 2, 6],
    ],
    [
      [5, 2, 4, 3],
      [48, 24, 3, 1],
      [10, 12],
    ],
    [
      [2, 3, 4],
      [40, 8, 2],
      [2, 12],
    ],
    [[1, 3, 1], [99, 7, 5], [3]],
    [[1], [7], []],
  ])('%j with strides %j as %j has the same elements', (shape, strides, other) => {
    const reshaped = reshapedStrides({ shape, strides }, other);
    expect(listElements(other, reshaped!)).toEqual(listElements(shape, strides));
  });

  it.each<[number[], number[], number[]]>([
    [[4, 6], [12, 1], [24]],
    [
      [4, 6],
      [12, 1],
      [8, 3],
    ],
    [
      [4, 6],
      [12, 1],
      [3, 8],
    ],
    [
      [2, 3, 4],
      [40, 8, 2],
      [3, 2, 4],
    ],
    [[2, 3], [1, 2], [6]],
  ])('%j with strides %j are too far apart for %j', (shape, strides, other) => {
    const reshaped = reshapedStrides({ shape, strides }, other);
    expect(reshaped).toBeUndefined();
  });

  it('are any of a view without elements', () => {
    for (const strides of [
      [12, 6, 1],
      [6, 3, 1],
    ]) {
      expect(reshapedStrides({ shape: [0, 2, 3], strides }, [0, 6])).toEqual(contiguousStrides([0, 6]));
    }
  });
});

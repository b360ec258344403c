import { expect, it } from 'vitest';
import { copyBox } from './box-runs.js';

// element (i, j, k) of a [2, 3, 4] tensor has the index and value `12 * i + 4 * j + k`
const source = Uint8Array.from({ length: 24 }, (_, index) => index);
const slice = (start: number, end: number) => ({ start, end });

it.each([
  [[slice(0, 2), slice(0, 3), slice(0, 4)], [...source]],
  [[slice(1, 2), slice(0, 3), slice(0, 4)], [...source.subarray(12)]],
  [
    [slice(0, 2), slice(1, 2), slice(0, 4)],
    [4, 5, 6, 7, 16, 17, 18, 19],
  ],
  [
    [slice(0, 2), slice(1, 3), slice(3, 4)],
    [7, 11, 19, 23],
  ],
  [[slice(0, 2), slice(2, 2), slice(0, 4)], []],
])('copies the box %j', (slices, expected) => {
  const box = copyBox({ source, dtype: 'U8', globalShape: [2, 3, 4], slices });
  expect([...box]).toEqual(expected);
});

it('copies elements of several bytes into given memory', () => {
  const target = new Uint8Array(8);
  const options = { source: source.subarray(0, 16), dtype: 'F32', globalShape: [2, 2] } as const;
  expect(copyBox({ ...options, slices: [slice(0, 2), slice(1, 2)], target })).toBe(target);
  expect([...target]).toEqual([4, 5, 6, 7, 12, 13, 14, 15]);
});

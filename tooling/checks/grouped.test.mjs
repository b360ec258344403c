import { expect, it } from 'vitest';
import { grouped } from './grouped.mjs';

const numbered = (beginning, count) => Array.from({ length: count }, (_, index) => `${beginning} ${index}`);

it('tells a few names one by one', () => {
  const names = numbered('a.test.ts: on a GPU adds', 5);
  expect(grouped(names)).toEqual(names);
});

it('tells many names of a file that begin alike as one, with their number', () => {
  const names = [
    ...numbered('a.test.ts: on a GPU adds', 6),
    'a.test.ts: on a GPU multiplies',
    'b.test.ts: alone',
  ];
  expect(grouped(names)).toEqual(['a.test.ts: on a GPU ... (7 tests)', 'b.test.ts: alone']);
});

it('hides none of many names that have nothing in common', () => {
  const names = [...numbered('a.test.ts: adds', 6), 'a.test.ts: multiplies'];
  expect(grouped(names)).toEqual(names);
});

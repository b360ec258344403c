import { expect, it } from 'vitest';
import { coverDefect } from './boxes.js';

it.each([
  [
    'one whole piece',
    [4, 4],
    [
      [
        [0, 4],
        [0, 4],
      ],
    ],
    undefined,
  ],
  ['a scalar', [], [[]], undefined],
  [
    'a tensor without elements',
    [0, 4],
    [
      [
        [0, 0],
        [0, 4],
      ],
    ],
    undefined,
  ],
  ['two halves', [4], [[[0, 2]], [[2, 4]]], undefined],
  ['a gap', [4], [[[0, 2]], [[3, 4]]], '1 of 4 elements are in no piece'],
  ['nothing', [4], [], '4 of 4 elements are in no piece'],
  ['the same twice', [4], [[[0, 4]], [[0, 4]]], '[0:4] and [0:4] overlap'],
  ['a scalar twice', [], [[], []], '[] and [] overlap'],
  // here the number of elements is the same as in the tensor, so only the overlap shows the defect
  ['an overlap as large as the gap', [4], [[[0, 2]], [[1, 3]]], '[0:2] and [1:3] overlap'],
  [
    'an overlap in the other dimension',
    [4, 4],
    [
      [
        [0, 4],
        [0, 2],
      ],
      [
        [0, 2],
        [1, 3],
      ],
      [
        [2, 4],
        [2, 4],
      ],
    ],
    '[0:4, 0:2] and [0:2, 1:3] overlap',
  ],
] as const)('%s', (_, shape, pieces, defect) => {
  expect(
    coverDefect(
      shape,
      pieces.map((piece) => piece.map(([start, end]) => ({ start, end }))),
    ),
  ).toBe(defect);
});

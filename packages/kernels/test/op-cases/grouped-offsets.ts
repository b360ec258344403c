import type { TensorSpec } from './op-case.js';

/** A division of rows into groups: the number of rows, and the end of each group. */
export interface Grouping {
  readonly what: string;
  readonly rows: number;
  readonly ends: readonly number[];
}

export const declareOffsets = ({ ends }: Grouping): TensorSpec => ({
  shape: [ends.length + 1],
  dtype: 'int32',
  values: [0, ...ends],
});

/** Groups without rows, a group of all rows, rows after the last group, and no rows at all. */
export const groupings: readonly Grouping[] = [
  { what: 'groups of 3, 0, 1 and 13 of 20 rows', rows: 20, ends: [3, 3, 4, 17] },
  { what: 'all 37 rows of one of 3 groups', rows: 37, ends: [0, 37, 37] },
  { what: '5 rows of no group', rows: 5, ends: [0, 0] },
  { what: 'no rows', rows: 0, ends: [0, 0, 0] },
  { what: 'one group of 1 row', rows: 1, ends: [1] },
];

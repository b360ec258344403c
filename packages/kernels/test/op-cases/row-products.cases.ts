import { rowProducts } from '../../src/index.js';
import type { OpCase } from './op-case.js';

const shapes: ReadonlyArray<readonly [number, number]> = [
  [3, 17],
  [2, 64],
  [5, 1],
  [0, 16],
  [9, 512],
];

const productsCase = (
  [rows, hidden]: readonly [number, number],
  { isWeighted }: { readonly isWeighted: boolean },
): OpCase => ({
  name: `row_products [${rows}, ${hidden}]${isWeighted ? ' with weights' : ''}`,
  operation: 'row_products',
  tensors: {
    output: { shape: [rows], output: true, dtype: 'float32' },
    left: { shape: [rows, hidden] },
    right: { shape: [rows, hidden] },
    ...(isWeighted && { weight: { shape: [hidden] } }),
  },
  run: ({ output, left, right, weight }) =>
    rowProducts({ output: output!, left: left!, right: right!, weight }),
});

export const cases: readonly OpCase[] = shapes.flatMap((shape) =>
  [false, true].map((isWeighted) => productsCase(shape, { isWeighted })),
);

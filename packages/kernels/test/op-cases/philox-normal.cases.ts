import { philoxNormal } from '../../src/index.js';
import type { OpCase } from './op-case.js';

// a whole matrix, and a part from the middle of a wider one
const parts = [
  { shape: [7, 9], globalColumns: 9, rowOffset: 0, columnOffset: 0 },
  { shape: [4, 5], globalColumns: 33, rowOffset: 6, columnOffset: 11 },
];

const small: OpCase[] = parts.map(({ shape, globalColumns, rowOffset, columnOffset }) => ({
  name: `philox_normal [${shape}] of ${globalColumns} columns`,
  operation: 'philox_normal',
  tensors: { output: { shape, output: true } },
  run: ({ output }) =>
    philoxNormal({
      output: output!,
      standardDeviation: 0.02,
      key: [123456789, 4000000000],
      globalColumns,
      rowOffset,
      columnOffset,
    }),
}));

// Weights are made once in a training run, in double: the time is reported, but the kernel is not tuned.
const benchmark: OpCase = {
  name: 'philox_normal gpt2-124m [768, 3072]',
  operation: 'philox_normal',
  tensors: { output: { shape: [768, 3072], output: true } },
  run: ({ output }) =>
    philoxNormal({ output: output!, standardDeviation: 0.02, key: [1, 2], globalColumns: 3072 }),
  benchmark: {},
};

export const cases: readonly OpCase[] = [...small, benchmark];

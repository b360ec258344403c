import { addCounts, updateExpertBias } from '../../src/index.js';
import type { OpCase } from './op-case.js';

const numbers = [1, 4, 60];

const updates: OpCase[] = numbers.flatMap((experts) =>
  [1e-3, 0].map((rate) => ({
    name: `update_expert_bias of ${experts} by ${rate}`,
    operation: 'update_expert_bias',
    tensors: {
      expertBias: { shape: [experts], output: true, accumulated: true },
      // the mean of four consecutive counts equals one count
      counts: { shape: [experts], dtype: 'int64', values: (e) => [40839, 40841, 40842, 40842][e % 4]! },
    },
    run: ({ expertBias, counts }) => updateExpertBias({ expertBias: expertBias!, counts: counts!, rate }),
    dtypes: ['float32'],
  })),
);

const additions: OpCase[] = numbers.map((experts) => ({
  name: `add_counts of ${experts}`,
  operation: 'add_counts',
  tensors: {
    counts: {
      shape: [experts],
      dtype: 'int64',
      values: (e) => 2 ** 40 + e,
      output: true,
      accumulated: true,
    },
    offsets: { shape: [experts + 1], dtype: 'int32', values: (e) => (e * (e + 1)) / 2 },
  },
  run: ({ counts, offsets }) => addCounts({ counts: counts!, offsets: offsets! }),
  dtypes: ['int32'],
}));

export const cases: readonly OpCase[] = [...updates, ...additions];

import { dropOverCapacity, groupByExpert } from '../../src/index.js';
import type { OpCase, TensorSpec } from './op-case.js';

// T rows, E experts, k slots
interface Sizes {
  readonly what: string;
  readonly rows: number;
  readonly topK: number;
  readonly experts: number;
  /** The expert of each slot. */
  readonly values: (slot: number) => number;
}

/** Returns a multiplicative hash, which has the same values in every run. */
const hash = (index: number): number => Math.imul(index + 1, 0x9e3779b1) >>> 0;

const sizes: readonly Sizes[] = [
  { what: 'of 5', rows: 7, topK: 2, experts: 5, values: (slot) => hash(slot) % 5 },
  { what: 'of 60', rows: 300, topK: 4, experts: 60, values: (slot) => hash(slot) % 60 },
  { what: 'of 7, an eighth dropped', rows: 41, topK: 3, experts: 7, values: (slot) => (hash(slot) % 8) - 1 },
  { what: 'all of the last', rows: 9, topK: 1, experts: 4, values: () => 3 },
  { what: 'all dropped', rows: 5, topK: 2, experts: 3, values: () => -1 },
  { what: 'of one', rows: 6, topK: 1, experts: 1, values: () => 0 },
  { what: 'of no rows', rows: 0, topK: 2, experts: 3, values: () => 0 },
];

const declareExperts = ({ rows, topK, values }: Sizes): TensorSpec => ({
  shape: [rows, topK],
  dtype: 'int32',
  values,
});

/** Declares an output that starts with other values: memory that is not written is -1 in tests. */
const declareOutput = (shape: readonly number[]): TensorSpec => ({
  shape,
  dtype: 'int32',
  values: () => 77,
  output: true,
  accumulated: true,
});

const groups: OpCase[] = sizes.map((size) => ({
  name: `group_by_expert [${size.rows}, ${size.topK}] ${size.what}`,
  operation: 'group_by_expert',
  tensors: {
    offsets: declareOutput([size.experts + 1]),
    positions: declareOutput([size.rows, size.topK]),
    sources: declareOutput([size.rows * size.topK]),
    experts: declareExperts(size),
  },
  run: ({ offsets, positions, sources, experts }) => {
    const outputs = { offsets: offsets!, positions: positions!, sources: sources! };
    // a call with omitted outputs needs the number of experts
    const groups = { numExperts: size.experts };
    groupByExpert({ ...outputs, ...groups, experts: experts! });
  },
  dtypes: ['int32'],
}));

const drops: OpCase[] = sizes.flatMap((size) =>
  [true, false].flatMap((byPosition) =>
    [0, 1, 3, 1000].map(
      (capacity): OpCase => ({
        name: `drop_over_capacity ${capacity} [${size.rows}, ${size.topK}] ${size.what}${byPosition ? ' by position' : ''}`,
        operation: 'drop_over_capacity',
        tensors: {
          output: declareOutput([size.rows, size.topK]),
          experts: declareExperts(size),
          // ties: the first slot is kept
          probabilities: {
            shape: [size.rows, size.topK],
            dtype: 'float32',
            values: (slot) => (hash(slot + 1000) % 11) / 16,
          },
        },
        run: ({ output, experts, probabilities }) =>
          dropOverCapacity({
            output: output!,
            experts: experts!,
            probabilities: probabilities!,
            numExperts: size.experts,
            capacity,
            byPosition,
          }),
        dtypes: ['int32'],
      }),
    ),
  ),
);

export const cases: readonly OpCase[] = [...groups, ...drops];

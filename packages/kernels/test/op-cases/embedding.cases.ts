import { embeddingBackward, embeddingForward } from '../../src/index.js';
import { benchmarkSizes, timedKind } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

const vocabulary = 11;
const widths = [5, 64, 100];
// every id occurs several times, and some ids are outside a table that starts at row 3
const ids: TensorSpec = { shape: [4, 6], dtype: 'int32', values: (index) => (index * 7) % vocabulary };

const forward: OpCase[] = widths.flatMap((hidden) =>
  [0, 3].flatMap((firstRow) =>
    [false, true].map((accumulate) => ({
      name: `embedding_forward H ${hidden} firstRow ${firstRow}${accumulate ? ' accumulate' : ''}`,
      operation: 'embedding_forward',
      tensors: {
        output: { shape: [4, 6, hidden], output: true, accumulated: accumulate },
        ids,
        table: { shape: [vocabulary - firstRow - 1, hidden] },
      },
      run: ({ output, ids, table }) =>
        embeddingForward({
          output: output!,
          ids: ids!,
          table: table!,
          firstRow,
          accumulate,
          numRows: vocabulary,
        }),
    })),
  ),
);

const backward: OpCase[] = widths.map((hidden) => ({
  name: `embedding_backward H ${hidden}`,
  operation: 'embedding_backward',
  tensors: {
    tableGradient: { shape: [7, hidden], dtype: 'float32', output: true, accumulated: true },
    outputGradient: { shape: [4, 6, hidden] },
    ids,
  },
  run: ({ tableGradient, outputGradient, ids }) =>
    embeddingBackward({
      tableGradient: tableGradient!,
      outputGradient: outputGradient!,
      ids: ids!,
      firstRow: 2,
      numRows: vocabulary,
    }),
}));

/** Returns ids as in a text: few that occur again and again, many that occur once (Zipf's law). */
const asInText =
  (rows: number) =>
  (index: number): number => {
    // a multiplicative hash instead of a generator: the same ids in every run
    const uniform = (Math.imul(index + 1, 0x9e3779b1) >>> 0) / 2 ** 32;
    return Math.floor(rows ** uniform) - 1;
  };

/**
 * Returns a case of many tokens, more than a block sorts or adds up at a time. Values are multiples of an
 * eighth, so that sums are exact in any order.
 */
function backwardOfMany(
  what: string,
  options: {
    readonly tokens: number;
    readonly rows: number;
    readonly hidden?: number;
    readonly firstRow?: number;
    readonly numRows?: number;
    readonly id: (index: number) => number;
  },
): OpCase {
  const { tokens, rows, hidden = 8, firstRow = 0, numRows, id } = options;
  const exact = { absolute: 0, relative: 0 };
  return {
    name: `embedding_backward of ${tokens} tokens, ${what}`,
    operation: 'embedding_backward',
    tensors: {
      tableGradient: {
        shape: [rows, hidden],
        dtype: 'float32',
        values: (index) => (index % 5) - 2,
        output: true,
        accumulated: true,
      },
      outputGradient: { shape: [tokens, hidden], values: (index) => (((index * 7) % 17) - 8) / 8 },
      ids: { shape: [tokens], dtype: 'int32', values: id },
    },
    run: ({ tableGradient, outputGradient, ids }) =>
      embeddingBackward({
        tableGradient: tableGradient!,
        outputGradient: outputGradient!,
        ids: ids!,
        firstRow,
        numRows,
      }),
    tolerance: {
      float32: exact,
      bfloat16: exact,
      float16: exact,
      reason: 'sums of a few thousand eighths, each of at most 1, need 16 bits: no order rounds',
    },
  };
}

const ofMany: OpCase[] = [
  backwardOfMany('ids as in a text', { tokens: 2600, rows: 700, id: asInText(700) }),
  backwardOfMany('one id', { tokens: 2600, rows: 3, hidden: 5, id: () => 1 }),
  backwardOfMany('two ids in turn', { tokens: 2560, rows: 2, hidden: 200, id: (index) => index % 2 }),
  backwardOfMany('none in the table', {
    tokens: 130,
    rows: 4,
    firstRow: 1,
    numRows: 6,
    id: (index) => (index % 2 === 0 ? 0 : 5),
  }),
  // the table of one rank of several: ids before it, in it and after it
  backwardOfMany('a third of the vocabulary', {
    tokens: 2600,
    rows: 300,
    firstRow: 300,
    numRows: 900,
    id: (index) => (index * 7919) % 900,
  }),
  // row numbers of 19 bits take one pass more than row numbers of 18
  backwardOfMany('a large vocabulary', {
    tokens: 300,
    rows: 2 ** 18 + 9,
    hidden: 1,
    id: (index) => (index % 3 === 0 ? 2 ** 18 + 8 : index),
  }),
  // chunks of 64 tokens: rows whose tokens end with a chunk, begin with a chunk, and fill a chunk
  backwardOfMany('64 of each id', { tokens: 256, rows: 4, id: (index) => Math.floor(index / 64) }),
  backwardOfMany('65 and 63 of an id', {
    tokens: 256,
    rows: 4,
    numRows: 5,
    id: (index) => Math.floor((index + 191) / 64) - 2,
  }),
];

/**
 * Benchmarks, on a GPU only, with the numbers of tokens of large micro-batches: the time should grow linearly
 * with the number of tokens, not quadratically.
 */
const benchmarksOfMany: OpCase[] = (timedKind === 'gpu' ? [16, 32, 64, 128] : []).map((thousands): OpCase => {
  const [tokens, rows, hidden] = [thousands * 1024, 50304, 2048];
  const id = asInText(rows);
  const numRows = new Set(Array.from({ length: tokens }, (_, index) => id(index))).size;
  return {
    name: `embedding_backward of ${thousands}k tokens as in a text, [${rows},${hidden}]`,
    operation: 'embedding_backward',
    dtypes: ['bfloat16'],
    tensors: {
      tableGradient: { shape: [rows, hidden], dtype: 'float32', output: true, accumulated: true },
      outputGradient: { shape: [tokens, hidden] },
      ids: { shape: [tokens], dtype: 'int32', values: id },
    },
    run: ({ tableGradient, outputGradient, ids }) =>
      embeddingBackward({ tableGradient: tableGradient!, outputGradient: outputGradient!, ids: ids! }),
    // every gradient is read; each row of the float32 table that occurs is read and written
    benchmark: { elements: (tokens + 4 * numRows) * hidden },
    tolerance: {
      bfloat16: { absolute: 4e-3, relative: 1e-5 },
      reason:
        '8,000 N(0, 1) values in another order: partial sums of up to 300 are rounded 8,000 times to 2^-24',
    },
  };
});

const benchmarks: OpCase[] = benchmarkSizes.flatMap(
  ({ preset, sequence, batch, hidden, logits }): OpCase[] => {
    const rows = logits[1];
    const shape = [sequence, batch, hidden];
    // a multiplicative hash spreads the ids over the table, as the tokens of a text do
    const ids: TensorSpec = {
      shape: [sequence, batch],
      dtype: 'int32',
      values: (index) => (Math.imul(index + 1, 0x9e3779b1) >>> 0) % rows,
    };
    const elements = 2 * sequence * batch * hidden;
    return [
      {
        name: `embedding_forward ${preset} [${shape}] of ${rows}`,
        operation: 'embedding_forward',
        tensors: { output: { shape, output: true }, ids, table: { shape: [rows, hidden] } },
        run: ({ output, ids, table }) => embeddingForward({ output: output!, ids: ids!, table: table! }),
        benchmark: { elements },
      },
      {
        name: `embedding_backward ${preset} [${shape}] of ${rows}`,
        operation: 'embedding_backward',
        tensors: {
          tableGradient: { shape: [rows, hidden], dtype: 'float32', output: true, accumulated: true },
          outputGradient: { shape },
          ids,
        },
        run: ({ tableGradient, outputGradient, ids }) =>
          embeddingBackward({ tableGradient: tableGradient!, outputGradient: outputGradient!, ids: ids! }),
        // reads a gradient, reads and writes a row of the float32 table
        benchmark: { elements: 1.5 * elements },
        tolerance: {
          float32: { absolute: 1e-4, relative: 1e-5 },
          bfloat16: { absolute: 1e-4, relative: 1e-5 },
          float16: { absolute: 1e-4, relative: 1e-5 },
          reason: 'tens of N(0, 1) values are added to each row of the small table, in float32',
        },
      },
    ];
  },
);

export const cases: readonly OpCase[] = [
  ...forward,
  ...backward,
  ...ofMany,
  ...benchmarks,
  ...benchmarksOfMany,
];

export const gradientCases: readonly GradientCase[] = [
  {
    name: 'embedding',
    tensors: { table: { shape: [vocabulary, 3] }, ids },
    differentiable: ['table'],
    outputShape: [4, 6, 3],
    forward: ({ table, ids }, output) => embeddingForward({ output, ids: ids!, table: table! }),
    backward: ({ ids }, outputGradient, gradients) =>
      embeddingBackward({ tableGradient: gradients.table!, outputGradient, ids: ids! }),
  },
];

import { embeddingBackward, embeddingForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

const vocabulary = 11;
const widths = [5, 64, 100];
// every id several times, and some outside a table that starts at row 3
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
        embeddingForward({ output: output!, ids: ids!, table: table!, firstRow, accumulate }),
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
    }),
}));

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

export const cases: readonly OpCase[] = [...forward, ...backward, ...benchmarks];

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

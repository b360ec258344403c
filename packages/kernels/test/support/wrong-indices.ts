import {
  crossEntropyBackward,
  crossEntropyForwardBackward,
  type Device,
  embeddingBackward,
  embeddingForward,
  rotaryEmbedding,
  Tensor,
  tidy,
} from '../../src/index.js';

/** Invalid indices for a table or vocabulary of 7. */
export const wrongIndices = [-1, -100, 7, 1_000_000_000, -2147483648] as const;

/** Calls of operations whose third index is `wrong`, by name; each returns its outputs. */
export const operations: Readonly<Record<string, (wrong: number, device: Device) => number[]>> = {
  embedding_forward: (wrong, device) =>
    tidy(() => {
      const ids = Tensor.from([0, 6, wrong, 3], { shape: [4], dtype: 'int32', device });
      const table = Tensor.from([0, 1, 2, 3, 4, 5, 6], { shape: [7, 1], dtype: 'float32', device });
      const output = Tensor.empty({ shape: [4, 1], dtype: 'float32', device });
      embeddingForward({ output, ids, table });
      return output.toArray();
    }),
  'embedding_forward of a part of the table': (wrong, device) =>
    tidy(() => {
      const ids = Tensor.from([0, 6, wrong, 3], { shape: [4], dtype: 'int32', device });
      const table = Tensor.from([2, 3], { shape: [2, 1], dtype: 'float32', device });
      const output = Tensor.empty({ shape: [4, 1], dtype: 'float32', device });
      embeddingForward({ output, ids, table, firstRow: 2, numRows: 7 });
      return output.toArray();
    }),
  embedding_backward: (wrong, device) =>
    tidy(() => {
      const ids = Tensor.from([0, 6, wrong, 3], { shape: [4], dtype: 'int32', device });
      const tableGradient = Tensor.zeros({ shape: [7, 1], dtype: 'float32', device });
      const outputGradient = Tensor.from([1, 1, 1, 1], { shape: [4, 1], dtype: 'float32', device });
      embeddingBackward({ tableGradient, outputGradient, ids });
      return tableGradient.toArray();
    }),
  rotary_embedding: (wrong, device) =>
    tidy(() => {
      const positions = Tensor.from([0, 6, wrong, 3], { shape: [4], dtype: 'int32', device });
      const table = Tensor.zeros({ shape: [7, 2], dtype: 'float32', device });
      const input = Tensor.zeros({ shape: [4, 2], dtype: 'float32', device });
      const output = Tensor.empty(input);
      rotaryEmbedding({ output, input, positions, table });
      return output.toArray().filter((_, index) => index % 2 === 0);
    }),
  cross_entropy_backward: (wrong, device) => loss(crossEntropyBackward, { wrong, device, firstColumn: 0 }),
  'cross_entropy_backward of a part of the vocabulary': (wrong, device) =>
    loss(crossEntropyBackward, { wrong, device, firstColumn: 4 }),
  cross_entropy_forward_backward: (wrong, device) =>
    loss(crossEntropyForwardBackward, { wrong, device, firstColumn: 0 }),
};

function loss(
  operation: typeof crossEntropyBackward,
  of: { readonly wrong: number; readonly device: Device; readonly firstColumn: number },
): number[] {
  const { wrong, device, firstColumn } = of;
  const numColumns = 7 - firstColumn;
  return tidy(() => {
    const logits = Tensor.zeros({ shape: [4, numColumns], dtype: 'float32', device });
    const labels = Tensor.from([0, 6, wrong, 3], { shape: [4], dtype: 'int32', device });
    const ones = (): Tensor => Tensor.from([1, 1, 1, 1], { shape: [4], dtype: 'float32', device });
    const statistics = { rowMaximum: ones(), rowSum: ones(), labelLogit: ones() };
    const losses = ones();
    operation({
      ...statistics,
      logits,
      labels,
      loss: losses,
      weights: ones(),
      firstColumn,
      numColumns,
      vocabularySize: 7,
      logitGradient: Tensor.empty(logits),
    });
    return losses.toArray();
  });
}

import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface EmbeddingForwardOptions {
  /** [..., H] */
  readonly output: Tensor;
  /** int32, one per row of `output`. */
  readonly ids: Tensor;
  /** [V, H] */
  readonly table: Tensor;
  /** The global number of the table's first row, where the vocabulary is split over ranks. */
  readonly firstRow?: number;
  /** Adds to `output`: token and position embeddings in two calls. */
  readonly accumulate?: boolean;
}

/** output[token] = table[id - firstRow], zeros for ids outside the table. */
export function embeddingForward(options: EmbeddingForwardOptions): void {
  const { output, ids, table, firstRow = 0, accumulate = false } = options;
  runOperation('embedding_forward', [output, ids, table], [firstRow, accumulate]);
}

export interface EmbeddingBackwardOptions {
  /** [V, H] float32, added to. */
  readonly tableGradient: Tensor;
  /** [..., H] */
  readonly outputGradient: Tensor;
  readonly ids: Tensor;
  readonly firstRow?: number;
}

/** tableGradient[id - firstRow] += outputGradient[token], in token order: the same bits every time. */
export function embeddingBackward(options: EmbeddingBackwardOptions): void {
  const { tableGradient, outputGradient, ids, firstRow = 0 } = options;
  runOperation('embedding_backward', [tableGradient, outputGradient, ids], [firstRow]);
}

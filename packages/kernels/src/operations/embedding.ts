import { checkedOperation } from '../checked-operation.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface EmbeddingForwardOptions {
  /** [..., H] */
  readonly output: Tensor;
  /** int32, an id for each row of `output`. */
  readonly ids: Tensor;
  /** [V, H] */
  readonly table: Tensor;
  /** The global index of the table's first row, if the vocabulary is sharded over ranks. */
  readonly firstRow?: number;
  /**
   * The number of valid ids over all ranks. If the complete table ends with padding, it is smaller than the
   * table's number of rows. Default: all ids up to the last row of this table.
   */
  readonly numRows?: number | undefined;
  /** True to add to `output`. For example, two calls compute the sum of token and position embeddings. */
  readonly accumulate?: boolean;
}

/**
 * output[token] = table[id - firstRow], or zeros if the row of the id is on a different rank.
 *
 * @throws KernelError `MTL_INDEX` for an id below 0 or not below `numRows`; on device `cuda`, the next call
 *   that waits for the device throws the error, and the row is NaN
 */
export const embeddingForward = returningOperation<EmbeddingForwardOptions, 'output'>(
  'embeddingForward',
  { output: ({ ids, table }) => like(table, [...ids.shape, table.dim(-1)]) },
  (options) => {
    const { output, ids, table, firstRow = 0, accumulate = false } = options;
    const { numRows = firstRow + table.dim(0) } = options;
    runOperation('embedding_forward', { output, ids, table, firstRow, accumulate, numRows });
  },
);

export interface EmbeddingBackwardOptions {
  /** [V, H] float32. The call adds to it. */
  readonly tableGradient: Tensor;
  /** [..., H] */
  readonly outputGradient: Tensor;
  readonly ids: Tensor;
  readonly firstRow?: number;
  /** The number of rows, as in `EmbeddingForwardOptions`. */
  readonly numRows?: number | undefined;
}

/**
 * tableGradient[id - firstRow] += outputGradient[token], in token order, so that the result has the same bits
 * every time.
 *
 * @throws KernelError `MTL_INDEX` in the same cases as `embeddingForward`
 */
export const embeddingBackward = checkedOperation(
  'embeddingBackward',
  (options: EmbeddingBackwardOptions): void => {
    const { tableGradient, outputGradient, ids, firstRow = 0 } = options;
    const { numRows = firstRow + tableGradient.dim(0) } = options;
    runOperation('embedding_backward', { tableGradient, outputGradient, ids, firstRow, numRows });
  },
);

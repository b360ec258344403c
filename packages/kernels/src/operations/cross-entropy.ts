import { checkedOperation } from '../checked-operation.js';
import { declareStatistics, like, returningOperation } from '../returning-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor, TensorOptions } from '../tensor.js';

/** Which columns of the logits belong to the vocabulary. */
export interface VocabularyColumns {
  /**
   * The global index of the first column. It may be above 0 if the vocabulary is sharded over ranks. Default:
   * 0.
   */
  readonly firstColumn?: number;
  /**
   * The number of real columns. The rest is padding, which never enters the softmax. 0 means that there is
   * only padding.
   */
  readonly numColumns: number;
  /**
   * The soft cap c of the logits: a logit x enters the softmax as `c * tanh(x / c)` (Gemma Team 2024, "Gemma
   * 2"), and the statistics use the soft-capped logits. Default: no soft cap. Not supported on device cuda.
   */
  readonly softCap?: number | undefined;
}

export interface CrossEntropyStatisticsOptions extends VocabularyColumns {
  /** [N] float32; -infinity if the rank has no real columns */
  readonly rowMaximum: Tensor;
  /** [N] float32: sum of exp(logit - rowMaximum) */
  readonly rowSum: Tensor;
  /** [N] float32: the logit of the label; 0 if the label's column is on another rank */
  readonly labelLogit: Tensor;
  /** [N, V] */
  readonly logits: Tensor;
  /** [N] int32, global column numbers */
  readonly labels: Tensor;
}

const statisticsOfRows = ({
  logits,
  labels,
}: Pick<CrossEntropyStatisticsOptions, 'logits' | 'labels'>): Required<TensorOptions> =>
  declareStatistics(logits, [labels.size]);

/**
 * Computes, for each row, the statistics that the loss needs. If the vocabulary is sharded, the statistics
 * must be reduced over the ranks before `crossEntropyBackward`.
 */
export const crossEntropyStatistics = returningOperation<
  CrossEntropyStatisticsOptions,
  'rowMaximum' | 'rowSum' | 'labelLogit'
>(
  'crossEntropyStatistics',
  { rowMaximum: statisticsOfRows, rowSum: statisticsOfRows, labelLogit: statisticsOfRows },
  (options) => {
    const {
      rowMaximum,
      rowSum,
      labelLogit,
      logits,
      labels,
      firstColumn = 0,
      numColumns,
      softCap = 0,
    } = options;
    runOperation('cross_entropy_statistics', {
      rowMaximum,
      rowSum,
      labelLogit,
      logits,
      labels,
      firstColumn,
      numColumns,
      softCap,
    });
  },
);

export interface CrossEntropyRescaleOptions {
  readonly output: Tensor;
  readonly rowSum: Tensor;
  readonly rowMaximum: Tensor;
  readonly groupMaximum: Tensor;
}

/**
 * output = rowSum * exp(rowMaximum - groupMaximum), all [N] float32. The result is a rank's sum of
 * exponentials relative to the maximum over all ranks, so that the ranks' sums can be added. `output` may be
 * `rowSum` itself.
 */
export const crossEntropyRescale = returningOperation<CrossEntropyRescaleOptions, 'output'>(
  'crossEntropyRescale',
  { output: ({ rowSum }) => like(rowSum) },
  (options) => {
    const { output, rowSum, rowMaximum, groupMaximum } = options;
    runOperation('cross_entropy_rescale', { output, rowSum, rowMaximum, groupMaximum });
  },
);

export interface CrossEntropyBackwardOptions extends VocabularyColumns {
  /**
   * `[N, V]`: weight * (softmax - onehot). May be the same memory as `logits`. If it is omitted, only the
   * loss is computed.
   */
  readonly logitGradient?: Tensor | undefined;
  /** [N] float32: negative log-likelihood, 0 where the weight is 0 */
  readonly loss: Tensor;
  readonly logits: Tensor;
  readonly labels: Tensor;
  readonly rowMaximum: Tensor;
  readonly rowSum: Tensor;
  readonly labelLogit: Tensor;
  /**
   * [N] float32: the factor of each token's loss in the total (product of loss mask, loss scale and 1 /
   * number of tokens)
   */
  readonly weights: Tensor;
  /**
   * The number of columns over all ranks. Labels must be below it. Default: the end of this rank's real
   * columns.
   */
  readonly vocabularySize?: number | undefined;
  /**
   * Rows with this label have no loss and no gradient, regardless of their weight, as in PyTorch. To get the
   * mean over the remaining rows, give each of these rows a weight of 1 divided by their count. Default: no
   * label is ignored.
   */
  readonly ignoreIndex?: number | undefined;
  /** The index of row 0 in error messages, if these rows are a chunk of a larger tensor. Default: 0. */
  readonly firstRow?: number;
}

/** Returns the operands that the two loss operations share. */
function lossOperands(options: CrossEntropyBackwardOptions): Operands {
  const { logitGradient, loss, logits, labels, rowMaximum, rowSum, labelLogit, weights } = options;
  const { firstColumn = 0, numColumns, firstRow = 0, softCap = 0 } = options;
  const { vocabularySize = firstColumn + numColumns, ignoreIndex = Number.NaN } = options;
  return {
    logitGradient,
    loss,
    logits,
    labels,
    rowMaximum,
    rowSum,
    labelLogit,
    weights,
    firstColumn,
    numColumns,
    vocabularySize,
    ignoreIndex,
    firstRow,
    softCap,
  };
}

/**
 * Computes each row's loss and gradient from the global statistics.
 *
 * @throws KernelError `MTL_INDEX` for a label below 0 or not below `vocabularySize`, unless its weight is 0
 *   or it is ignored. On device `cuda`, the next call that waits for the device throws the error, and loss
 *   and gradient are NaN
 */
export const crossEntropyBackward = checkedOperation(
  'crossEntropyBackward',
  (options: CrossEntropyBackwardOptions): void => {
    runOperation('cross_entropy_backward', lossOperands(options));
  },
);

/**
 * Computes `crossEntropyStatistics` and `crossEntropyBackward` for a vocabulary that is not sharded, and
 * writes the statistics. If the device supports it, a single launch reads the logits only once.
 *
 * @throws KernelError `MTL_INDEX` in the same cases as `crossEntropyBackward`
 */
export const crossEntropyForwardBackward = checkedOperation(
  'crossEntropyForwardBackward',
  (options: CrossEntropyBackwardOptions): void => {
    runOperation('cross_entropy_forward_backward', lossOperands(options));
  },
);

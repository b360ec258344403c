import { logitRowsAtATime } from '@mtl/autograd';
import { mostRoomForMasked } from '@mtl/data';
import type { MemoryShape } from './memory-shape.js';

/**
 * Bytes of tensors of one micro-batch, S B rows, in which S B / t is what sequence parallelism leaves of the
 * rows.
 */
export interface TensorSizes {
  /** S B */
  readonly rows: number;
  /** S B / t or S B: those of the residual stream. */
  readonly residualRows: number;
  /** Those that logits are made of: all, or M of a BERT. */
  readonly rowsOfHead: number;
  /** S B / t H or S B H: the residual stream. */
  readonly residual: number;
  /** S B H, where sequence parallelism has it put together for a product; else 0. */
  readonly gathered: number;
  /** S B H / t: what the heads of this rank attend to. */
  readonly attended: number;
  /** S B F / t */
  readonly widened: number;
  /** Both numbers of a layer norm, for each row. */
  readonly statistics: number;
  /** Of attention, a number for each row and head. */
  readonly logSumExp: number;
  /** The most logits at a time, with their statistics. */
  readonly logits: number;
}

export function tensorSizes(shape: MemoryShape): TensorSizes {
  const { hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t } = shape;
  const { bytesPerElement: e, numAttentionHeads: A } = shape;
  const tokens = shape.sequenceLength * shape.microBatchSize;
  // a BERT fills up what it packs to what can be cut
  const rows = shape.sequenceParallel ? Math.ceil(tokens / t) * t : tokens;
  const residualRows = shape.sequenceParallel ? rows / t : rows;
  const rowsOfHead = rowsThatHeadReads(shape);
  const bytesPerRow = (e * V) / t;
  return {
    rows,
    residualRows,
    rowsOfHead,
    residual: residualRows * e * H,
    gathered: shape.sequenceParallel ? rows * e * H : 0,
    attended: (rows * e * H) / t,
    widened: (rows * e * F) / t,
    statistics: 8 * residualRows,
    logSumExp: (4 * rows * A) / t,
    logits: (bytesPerRow + 12) * logitRowsAtATime({ numRows: rowsOfHead, bytesPerRow, device: shape.device }),
  };
}

function rowsThatHeadReads({ bert, microBatchSize: batchSize, sequenceLength }: MemoryShape): number {
  if (bert === undefined) return sequenceLength * batchSize;
  return mostRoomForMasked({ batchSize, sequenceLength, probability: bert.maskProbability });
}

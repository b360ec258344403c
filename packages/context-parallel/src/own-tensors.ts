import { splitProjection, type Tensor } from '@mtl/kernels';
import type { BackwardPass, ForwardPass } from './context-operation.js';
import { projectionShape } from './projection-parts.js';
import { type QueryChunk, rowsOfHalf } from './query-chunks.js';

/** The rows of forward's results that belong to an own chunk of queries; views. */
export interface OwnResults {
  /** [c, B, G, R, D] */
  readonly query: Tensor;
  /** [c, B, A, D] */
  readonly output: Tensor;
  /** [B, A, c] */
  readonly logSumExp: Tensor;
}

export function ownResults(
  { projection, sizes, output, logSumExp }: ForwardPass,
  { half }: QueryChunk,
): OwnResults {
  const { numPositions, batch, heads, headSize } = sizes;
  return {
    query: splitProjection(rowsOfHalf(projection.reshape(projectionShape(sizes)), half)).query,
    output: rowsOfHalf(output.reshape([numPositions, batch, heads, headSize]), half),
    logSumExp: logSumExp.rows(half, half + 1).reshape(logSumExp.shape.slice(1)),
  };
}

/** The rows of the gradients that belong to an own chunk of queries; views. */
export interface OwnGradients {
  /** [c, B, G, R, D] */
  readonly queryGradient: Tensor;
  /** [c, B, A, D] */
  readonly outputGradient: Tensor;
}

export function ownGradients(
  { gradient, sizes, outputGradient }: BackwardPass,
  { half }: QueryChunk,
): OwnGradients {
  const { numPositions, batch, heads, headSize } = sizes;
  return {
    queryGradient: splitProjection(rowsOfHalf(gradient.reshape(projectionShape(sizes)), half)).query,
    outputGradient: rowsOfHalf(outputGradient.reshape([numPositions, batch, heads, headSize]), half),
  };
}

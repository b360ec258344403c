import { splitProjection, type Tensor } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import type { BackwardPass, ForwardPass } from './context-operation.js';
import { projectionShape } from './projection-parts.js';

/** The rows of one of the own chunks, by its place among them: [own, ...] to [c, ...]. */
export function rowsOfPlace(tensor: Tensor, place: number, { perProcess }: Chunks): Tensor {
  const size = tensor.dim(0) / perProcess;
  return tensor.rows(place * size, (place + 1) * size);
}

/** The rows of forward's results that belong to an own chunk of queries; views. */
export interface OwnResults {
  /** [c, ..., G, R, D] */
  readonly query: Tensor;
  /** [c, ..., A, D] */
  readonly output: Tensor;
  /** See `Chunks.statisticsShape`. */
  readonly logSumExp: Tensor;
}

export function ownResults(pass: ForwardPass, place: number): OwnResults {
  const { projection, sizes, output, logSumExp, chunks } = pass;
  const { rows, heads, headSize } = sizes;
  return {
    query: splitProjection(rowsOfPlace(projection.reshape(projectionShape(sizes)), place, chunks)).query,
    output: rowsOfPlace(output.reshape([...rows, heads, headSize]), place, chunks),
    logSumExp: logSumExp.rows(place, place + 1).reshape(logSumExp.shape.slice(1)),
  };
}

/** The rows of the gradients that belong to an own chunk of queries; views. */
export interface OwnGradients {
  /** [c, ..., G, R, D] */
  readonly queryGradient: Tensor;
  /** [c, ..., A, D] */
  readonly outputGradient: Tensor;
}

export function ownGradients(pass: BackwardPass, place: number): OwnGradients {
  const { gradient, sizes, outputGradient, chunks } = pass;
  const { rows, heads, headSize } = sizes;
  return {
    queryGradient: splitProjection(rowsOfPlace(gradient.reshape(projectionShape(sizes)), place, chunks))
      .query,
    outputGradient: rowsOfPlace(outputGradient.reshape([...rows, heads, headSize]), place, chunks),
  };
}

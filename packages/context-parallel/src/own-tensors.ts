import { splitProjection, type Tensor } from '@mtl/kernels';
import type { BackwardPass, ForwardPass, Pass } from './context-operation.js';
import { projectionShape, rowsOfPlace } from './projection-parts.js';

/** The statistics of one of the own chunks: see `Chunks.statisticsShape`. */
const statisticsOfPlace = (statistics: Tensor, place: number): Tensor =>
  statistics.rows(place, place + 1).reshape(statistics.shape.slice(1));

/** [c, ..., G, R, D] */
const queryOfPlace = ({ projection, sizes, chunks }: Pass, place: number): Tensor =>
  splitProjection(rowsOfPlace(projection.reshape(projectionShape(sizes)), place, chunks)).query;

/** The rows of forward's operands that belong to an own chunk of queries; views. */
export interface OwnResults {
  /** [c, ..., G, R, D] */
  readonly query: Tensor;
  /** [c, ..., A, D] */
  readonly output: Tensor;
  /** See `Chunks.statisticsShape`. */
  readonly logSumExp: Tensor;
}

export function ownResults(pass: ForwardPass, place: number): OwnResults {
  const { sizes, output, logSumExp, chunks } = pass;
  const { rows, heads, headSize } = sizes;
  return {
    query: queryOfPlace(pass, place),
    output: rowsOfPlace(output.reshape([...rows, heads, headSize]), place, chunks),
    logSumExp: statisticsOfPlace(logSumExp, place),
  };
}

/** The rows of backward's operands that belong to an own chunk of queries; views. */
export interface OwnGradients {
  /** [c, ..., G, R, D] */
  readonly query: Tensor;
  readonly queryGradient: Tensor;
  /** [c, ..., A, D] */
  readonly outputGradient: Tensor;
  /** See `Chunks.statisticsShape`. */
  readonly logSumExp: Tensor;
  readonly rowSums: Tensor;
}

export function ownGradients(pass: BackwardPass, place: number): OwnGradients {
  const { gradient, sizes, outputGradient, chunks, logSumExp, rowSums } = pass;
  const { rows, heads, headSize } = sizes;
  return {
    query: queryOfPlace(pass, place),
    queryGradient: splitProjection(rowsOfPlace(gradient.reshape(projectionShape(sizes)), place, chunks))
      .query,
    outputGradient: rowsOfPlace(outputGradient.reshape([...rows, heads, headSize]), place, chunks),
    logSumExp: statisticsOfPlace(logSumExp, place),
    rowSums: statisticsOfPlace(rowSums, place),
  };
}

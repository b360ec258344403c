import type { AttentionCall } from '@mtl/autograd';
import { type Tape, Variable } from '@mtl/autograd';
import { attentionRowSums, type DType, splitProjection, Tensor, tidy } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import type { AttendedHeads } from './context-attention.js';
import { type ProjectionSizes, projectionShape, rowsOfPlace, sizesOf } from './projection-parts.js';

/**
 * The tensors of one pass. They hold the rows of this process's own chunks, one chunk after the other: [own,
 * B, W], or [own, W] for packed samples.
 */
export interface Pass {
  readonly call: AttendedHeads;
  readonly chunks: Chunks;
  readonly sizes: ProjectionSizes;
  /** [rows, ..., (A + 2 G) * D] */
  readonly projection: Tensor;
  /**
   * [chunks, ...], for each own chunk over all keys that its queries attend to; see `Chunks.statisticsShape`.
   */
  readonly logSumExp: Tensor;
}

export interface ForwardPass extends Pass {
  /** [rows, ..., A * D] */
  readonly output: Tensor;
}

export interface BackwardPass extends Pass {
  /** The `attentionRowSums` of each own chunk, in the shape of `logSumExp`. */
  readonly rowSums: Tensor;
  /** [rows, ..., (A + 2 G) * D] */
  readonly gradient: Tensor;
  /** [rows, ..., A * D] */
  readonly outputGradient: Tensor;
}

/**
 * A method of computing attention of this process's own queries if other processes hold part of the keys and
 * values.
 */
export interface ContextOperation {
  readonly name: string;
  /** Writes the output and the log-sum-exp. */
  forward(pass: ForwardPass): void;
  /** Writes the gradient of the projection. */
  backward(pass: BackwardPass): void;
}

/**
 * Returns the dtype in which partial results are summed: in 16 bits, rounding errors would add up over
 * processes.
 */
export const sumsOf = (dtype: DType): DType => (dtype === 'float64' ? 'float64' : 'float32');

/** Forward and backward of attention over the rows of a process. */
interface AttentionPasses {
  readonly name: string;
  /**
   * Computes the output. The returned `projection` is the tensor that backward reads in place of qkv.
   * Default: qkv itself.
   */
  forward(qkv: Tensor): {
    readonly output: Tensor;
    readonly logSumExp: Tensor;
    readonly projection?: Tensor;
  };
  /** Returns the gradient of qkv. */
  backward(kept: {
    readonly projection: Tensor;
    readonly output: Tensor;
    readonly logSumExp: Tensor;
    readonly outputGradient: Tensor;
  }): Tensor;
}

/**
 * Records attention as a differentiable operation that keeps the projection, the output and the log-sum-exp
 * of its rows. The tensors that its masks read must outlive the passes of the micro-batch.
 */
export function recordedAttention(
  tape: Tape,
  qkv: Variable,
  { name, forward, backward }: AttentionPasses,
): Variable {
  const results = tidy(() => forward(qkv.tensor));
  const output = tape.result(results.output, { requiresGradient: qkv.requiresGradient });
  const kept = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const logSumExp = kept(results.logSumExp);
  const projection = results.projection && kept(results.projection);
  tape.record(output, () => {
    const saved = {
      projection: tape.save(projection ?? qkv),
      output: tape.save(output),
      logSumExp: tape.save(logSumExp),
    };
    return {
      name,
      inputs: [qkv],
      parameters: [],
      saved: Object.values(saved),
      backward: ({ outputGradient }) => {
        // not in a tidy scope, because recomputed tensors belong to their variables
        const tensors = {
          projection: saved.projection.tensor,
          output: saved.output.tensor,
          logSumExp: saved.logSumExp.tensor,
          outputGradient: outputGradient!,
        };
        return [tidy(() => backward(tensors))];
      },
    };
  });
  logSumExp.release();
  projection?.release();
  return output;
}

/** Records attention of this process's own chunks. */
export function contextOperation(
  tape: Tape,
  { call, chunks }: { readonly call: AttentionCall; readonly chunks: Chunks },
  { name, forward, backward }: ContextOperation,
): Variable {
  const { dtype, device } = call.qkv.tensor;
  const sizes = sizesOf(call, chunks, call.qkv.tensor.dim(-1));
  const { heads, headSize, rows } = sizes;
  const empty = (shape: readonly number[]): Tensor => Tensor.empty({ shape, dtype, device });
  const statisticsShape = [chunks.perProcess, ...chunks.statisticsShape(heads)];
  const statistics = { shape: statisticsShape, dtype: sumsOf(dtype), device };
  return recordedAttention(tape, call.qkv, {
    name,
    forward: (qkv) => {
      const output = empty([...rows, heads * headSize]);
      const logSumExp = Tensor.empty(statistics);
      forward({ call, chunks, sizes, projection: chunks.enter(qkv), output, logSumExp });
      return { output: chunks.leave(output), logSumExp };
    },
    backward: (kept) => {
      const projection = chunks.enter(kept.projection);
      const gradient = empty(projection.shape);
      const outputGradient = chunks.enter(kept.outputGradient);
      const byHead = [...rows, heads, headSize];
      const output = chunks.enter(kept.output).reshape(byHead);
      const rowSums = Tensor.empty(statistics);
      for (let place = 0; place < chunks.perProcess; place++) {
        attentionRowSums({
          rowSums: rowSums.rows(place, place + 1).reshape(statisticsShape.slice(1)),
          output: rowsOfPlace(output, place, chunks),
          outputGradient: rowsOfPlace(outputGradient.reshape(byHead), place, chunks),
        });
      }
      const { logSumExp } = kept;
      backward({ call, chunks, sizes, projection, logSumExp, rowSums, gradient, outputGradient });
      return chunks.leave(gradient);
    },
  });
}

/** Returns the statistics of one of the own chunks: see `Chunks.statisticsShape`. */
const statisticsOfPlace = (statistics: Tensor, place: number): Tensor =>
  statistics.rows(place, place + 1).reshape(statistics.shape.slice(1));

/** Returns the queries of one of the own chunks, [c, ..., G, R, D]. */
const queryOfPlace = ({ projection, sizes, chunks }: Pass, place: number): Tensor =>
  splitProjection(rowsOfPlace(projection.reshape(projectionShape(sizes)), place, chunks)).query;

/** The rows of forward's operands that belong to an own chunk of queries; views. */
interface OwnResults {
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
interface OwnGradients {
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

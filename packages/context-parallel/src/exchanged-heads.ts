import type { AttentionCall, Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import {
  attentionBackward,
  attentionForward,
  cast,
  rowProducts,
  splitProjection,
  Tensor,
} from '@mtl/kernels';
import type { Chunks, RowOrder } from './chunks.js';
import type { AttendedHeads } from './context-attention.js';
import { type ContextOperation, recordedAttention, sumsOf } from './context-operation.js';
import { sizesOf } from './projection-parts.js';

/** The operands of attention of a process's own heads. Rows are in the order of their sequences. */
interface PassOfHeads {
  readonly call: AttendedHeads;
  /** [rows, ..., (A + 2 G) * D] */
  readonly projection: Tensor;
  /** See `AttentionOfHeads.statisticsShape`. */
  readonly logSumExp: Tensor;
}

/**
 * An implementation of attention of a process's own heads, for a process that has the rows of these heads.
 */
interface AttentionOfHeads {
  readonly name: string;
  /**
   * Returns the shape [chunks, ..., c] of log-sum-exp and row sums. The last two dimensions are heads and
   * positions.
   */
  statisticsShape(numHeads: number): readonly number[];
  /** Writes the output [rows, ..., A * D] and the log-sum-exp. */
  forward(pass: PassOfHeads & { readonly output: Tensor }): void;
  /** Writes the gradient of the projection. */
  backward(
    pass: PassOfHeads & {
      readonly rowSums: Tensor;
      readonly outputGradient: Tensor;
      readonly gradient: Tensor;
    },
  ): void;
}

/** Makes the attention of a process that holds all keys of its heads. */
export function attentionOfSequences(chunks: Chunks): AttentionOfHeads {
  const operandsOf = ({ call, projection, logSumExp }: PassOfHeads) => {
    const { numHeads, numGroups = numHeads } = call;
    const headSize = projection.dim(-1) / (numHeads + 2 * numGroups);
    const rows = projection.shape.slice(0, -1);
    const split = (tensor: Tensor) =>
      splitProjection(tensor.reshape([...rows, numGroups, numHeads / numGroups + 2, headSize]));
    const byHead = (tensor: Tensor) => tensor.reshape([...rows, numHeads, headSize]);
    const operands = { logSumExp: onlyChunk(logSumExp), ...split(projection), ...chunks.wholeMasks(call) };
    return { split, byHead, operands };
  };
  return {
    name: 'attention of exchanged heads',
    statisticsShape: (numHeads) => [1, ...chunks.wholeStatisticsShape(numHeads)],
    forward: (pass) => {
      const { byHead, operands } = operandsOf(pass);
      attentionForward({ ...operands, output: byHead(pass.output) });
    },
    backward: (pass) => {
      const { split, byHead, operands } = operandsOf(pass);
      const { query: queryGradient, key: keyGradient, value: valueGradient } = split(pass.gradient);
      attentionBackward({
        ...operands,
        queryGradient,
        keyGradient,
        valueGradient,
        outputGradient: byHead(pass.outputGradient),
        rowSums: onlyChunk(pass.rowSums),
      });
    },
  };
}

const onlyChunk = (statistics: Tensor): Tensor => statistics.reshape(statistics.shape.slice(1));

/** Makes the attention of a process whose heads have part of their keys in other blocks of processes. */
export const attentionOfBlocks = (
  chunks: Chunks,
  { name, forward, backward }: ContextOperation,
): AttentionOfHeads => {
  const withSizes = <Pass extends PassOfHeads>(pass: Pass) => ({
    ...pass,
    chunks,
    sizes: sizesOf(pass.call, chunks, pass.projection.dim(-1)),
  });
  return {
    name: `${name} of exchanged heads`,
    statisticsShape: (numHeads) => [chunks.perProcess, ...chunks.statisticsShape(numHeads)],
    forward: (pass) => forward(withSizes(pass)),
    backward: (pass) => backward(withSizes(pass)),
  };
};

/**
 * Records attention of some heads over the positions of all processes. Before attention, the processes
 * exchange data: each gives away all heads of its positions and gets all positions of its heads. Afterwards
 * they exchange back (DeepSpeed-Ulysses, Jacobs et al. 2023). Of the output, only the process's own positions
 * are kept, which the next matmul keeps anyway. Backward therefore communicates the row sums of the output
 * and its gradient.
 *
 * @throws UsageError `MTL_CONTEXT_PARALLEL` if the groups of heads cannot be divided evenly over the
 *   processes
 */
export function exchangedHeads(
  tape: Tape,
  { call, order }: { readonly call: AttentionCall; readonly order: RowOrder },
  { name, statisticsShape, forward, backward }: AttentionOfHeads,
): Variable {
  const own = ownHeads(call, order.group);
  const { dtype, device } = call.qkv.tensor;
  const empty = (shape: readonly number[]): Tensor => Tensor.empty({ shape, dtype, device });
  const emptyStatistics = (): Tensor =>
    Tensor.empty({ shape: statisticsShape(own.numHeads), dtype: sumsOf(dtype), device });
  return recordedAttention(tape, call.qkv, {
    name,
    forward: (qkv) => {
      const projection = positionsOfHeads(qkv, order);
      const { numHeads, numGroups = numHeads } = own;
      const width = (projection.dim(-1) / (numHeads + 2 * numGroups)) * numHeads;
      const output = empty([...projection.shape.slice(0, -1), width]);
      const logSumExp = emptyStatistics();
      forward({ call: own, projection, output, logSumExp });
      return { output: headsOfPositions(output, order), logSumExp, projection };
    },
    backward: ({ projection, output, logSumExp, outputGradient: ofPositions }) => {
      const rowSums = emptyStatistics();
      turnRows(positionsOfHeads(rowSumsOf(output, ofPositions, call.numHeads), order), rowSums);
      const outputGradient = positionsOfHeads(ofPositions, order);
      const gradient = empty(projection.shape);
      backward({ call: own, projection, logSumExp, rowSums, outputGradient, gradient });
      outputGradient.dispose();
      return headsOfPositions(gradient, order);
    },
  });
}

/** Returns the heads of a call that a process has after the exchange. */
function ownHeads(call: AttentionCall, { rank, size }: ProcessGroup): AttendedHeads {
  const { numHeads, numGroups = numHeads, headOffset = 0 } = call;
  if (numGroups % size !== 0) {
    throw new UsageError('MTL_CONTEXT_PARALLEL', `${numGroups} groups of heads for ${size} processes`, {
      expected: `a multiple of ${size}: every process has all positions of some of them`,
      remedy: 'let keys and values travel: all_gather or p2p',
    });
  }
  return {
    ...call,
    numHeads: numHeads / size,
    numGroups: numGroups / size,
    headOffset: headOffset + (rank * numHeads) / size,
  };
}

/** Computes the row sums [rows, ..., A] of an output and its gradient, [rows, ..., A * D]. */
function rowSumsOf(output: Tensor, gradient: Tensor, numHeads: number): Tensor {
  const shape = [...output.shape.slice(0, -1), numHeads, output.dim(-1) / numHeads];
  const sums = rowProducts({ left: output.reshape(shape), right: gradient.reshape(shape) });
  return sums.reshape(shape.slice(0, -1));
}

/** Copies rows [chunks * c, ..., A] to statistics [chunks, ..., A, c]. */
function turnRows(rows: Tensor, statistics: Tensor): void {
  const { shape } = statistics;
  const positions = shape.at(-1)!;
  const inner = shape.slice(1, -1);
  const width = inner.reduce((size, length) => size * length, 1);
  const strides = inner.map((_, dim) => inner.slice(dim + 1).reduce((size, length) => size * length, 1));
  // the last dimension of an operand must be contiguous: adds one of size 1
  using from = rows.strided({ shape: [...shape, 1], strides: [positions * width, ...strides, width, 1] });
  using to = statistics.reshape([...shape, 1]);
  cast({ output: to, input: from });
}

/** Views [rows, ..., W] as [n, rows, ..., W / n], split by the heads of each of n processes. */
function byHeads(tensor: Tensor, size: number): Tensor {
  const [rows, width] = [tensor.shape.slice(0, -1), tensor.dim(-1)];
  const share = width / size;
  const strides = rows.map((_, dim) => rows.slice(dim + 1).reduce((inner, length) => inner * length, width));
  return tensor.strided({ shape: [size, ...rows, share], strides: [share, ...strides, 1] });
}

/**
 * Exchanges [own, B, W] of the process's own positions for [S, B, W / n] of its own heads (packed: [T, W /
 * n]).
 */
function positionsOfHeads(tensor: Tensor, order: RowOrder): Tensor {
  const { group } = order;
  using own = order.enter(tensor);
  using view = byHeads(own, group.size);
  using leaving = cast({ input: view, dtype: tensor.dtype });
  using arrived = exchanged(leaving, group);
  const [size, numRows, ...rest] = view.shape as [number, number, ...number[]];
  using rows = arrived.reshape([size * numRows, ...rest]);
  return order.inSequenceOrder(rows);
}

/**
 * Exchanges [S, B, W / n] (packed: [T, W / n]) of the process's own heads for [own, B, W] of its own
 * positions.
 */
function headsOfPositions(tensor: Tensor, order: RowOrder): Tensor {
  const { group } = order;
  const { size } = group;
  const { dtype, device } = tensor;
  const [numRows, ...rest] = tensor.shape as [number, ...number[]];
  const share = rest.pop()!;
  using leaving = order.inProcessOrder(tensor);
  using arrived = exchanged(leaving, group);
  using result = Tensor.empty({ shape: [numRows / size, ...rest, share * size], dtype, device });
  using view = byHeads(result, size);
  using parts = arrived.reshape(view.shape);
  cast({ output: view, input: parts });
  return order.leave(result);
}

/** Runs an all-to-all with equal parts of the first dimension. */
function exchanged(input: Tensor, group: ProcessGroup): Tensor {
  const { shape, dtype, device } = input;
  const output = Tensor.empty({ shape, dtype, device });
  group.allToAll({ output, input }).wait();
  return output;
}

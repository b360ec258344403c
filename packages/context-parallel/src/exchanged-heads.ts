import { type AttentionCall, type Heads, SinksOfCall, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { attentionBackward, attentionForward, cast, countElements, rowProducts, Tensor } from '@mtl/kernels';
import type { Chunks, RowOrder } from './chunks.js';
import type { AttendedCall } from './context-attention.js';
import {
  addSinks,
  byHead,
  type ContextOperation,
  chooseSumDtype,
  differentiateSinks,
  recordedAttention,
} from './context-operation.js';
import { mapHeads, measureSizes } from './heads-of-rows.js';

/** The operands of attention for a process's own heads. Rows are in sequence order. */
interface PassOfHeads {
  readonly call: AttendedCall;
  /** [rows, ...] */
  readonly heads: Heads<Tensor>;
  /** See `AttentionOfHeads.statisticsShape`. */
  readonly logSumExp: Tensor;
}

/** Computes attention for the heads of a process that has received the rows of these heads. */
interface AttentionOfHeads {
  readonly name: string;
  /**
   * Returns the shape [chunks, ..., A, c] of log-sum-exp and row sums; the last two dimensions are heads and
   * positions.
   */
  statisticsShape(numHeads: number): readonly number[];
  /** Writes the output [rows, ..., A, E] and the log-sum-exp. */
  forward(pass: PassOfHeads & { readonly output: Tensor }): void;
  /** Writes the gradients of the heads. */
  backward(
    pass: PassOfHeads & {
      readonly rowSums: Tensor;
      /** [rows, ..., A, E] */
      readonly outputGradient: Tensor;
      readonly gradient: Heads<Tensor>;
    },
  ): void;
}

/** Makes the attention for a process that holds all keys of its own heads. */
export function attentionOfSequences(chunks: Chunks): AttentionOfHeads {
  const collectOperands = ({ call, heads, logSumExp }: PassOfHeads) => ({
    logSumExp: onlyChunk(logSumExp),
    ...heads,
    ...chunks.wholeOptions(call),
  });
  return {
    name: 'attention of exchanged heads',
    statisticsShape: (numHeads) => [1, ...chunks.wholeStatisticsShape(numHeads)],
    forward: (pass) => {
      const { highestScores } = pass.call;
      attentionForward({ ...collectOperands(pass), output: pass.output, highestScores });
    },
    backward: (pass) =>
      attentionBackward({
        ...collectOperands(pass),
        queryGradient: pass.gradient.query,
        keyGradient: pass.gradient.key,
        valueGradient: pass.gradient.value,
        outputGradient: pass.outputGradient,
        rowSums: onlyChunk(pass.rowSums),
      }),
  };
}

const onlyChunk = (statistics: Tensor): Tensor => statistics.reshape(statistics.shape.slice(1));

/** Makes the attention for a process if some keys of its heads are in other blocks of processes. */
export const attentionOfBlocks = (
  chunks: Chunks,
  { name, forward, backward }: ContextOperation,
): AttentionOfHeads => {
  const withSizes = <Pass extends PassOfHeads>(pass: Pass) => ({
    ...pass,
    chunks,
    sizes: measureSizes(pass.heads),
  });
  return {
    name: `${name} of exchanged heads`,
    statisticsShape: (numHeads) => [chunks.perProcess, ...chunks.statisticsShape(numHeads)],
    forward: (pass) => forward(withSizes(pass)),
    backward: (pass) => backward(withSizes(pass)),
  };
};

/**
 * Records attention of some heads over the positions of all processes (DeepSpeed-Ulysses, Jacobs et al.
 * 2023). Before attention, processes exchange data: each sends all heads of its own positions and receives
 * all positions of its own heads. After attention, the processes exchange the output back. Of the output, a
 * process keeps only its own positions, which the next matmul needs in backward in any case. Because the
 * other positions are not kept, backward communicates the row sums of the product of the output and its
 * gradient.
 *
 * @throws UsageError `MTL_CONTEXT_PARALLEL` if the groups of heads cannot be divided evenly over the
 *   processes
 */
export function exchangedHeads(
  tape: Tape,
  { call: ofCall, order }: { readonly call: AttentionCall; readonly order: RowOrder },
  { name, statisticsShape, forward, backward }: AttentionOfHeads,
): Variable {
  const { query, key, value, ...rest } = ofCall;
  const { dtype, device } = query.tensor;
  const sizes = measureSizes(mapHeads(ofCall, ({ tensor }) => tensor));
  const numHeads = headsOfProcess(sizes, order.group);
  const { rank, size } = order.group;
  const firstHead = rank * numHeads;
  const call = { ...rest, headOffset: (rest.headOffset ?? 0) + firstHead };
  const sinks = rest.sinks && new SinksOfCall(rest.sinks, { start: firstHead, end: firstHead + numHeads });
  const [groups, headsPerGroup] = [sizes.groups / size, sizes.heads / sizes.groups];
  // the features of each row that a process has after the exchange, one after the other
  const features = {
    query: [groups, headsPerGroup, sizes.headSize],
    key: [groups, sizes.headSize],
    value: [groups, sizes.valueSize],
  };
  const emptyStatistics = (): Tensor =>
    Tensor.empty({ shape: statisticsShape(numHeads), dtype: chooseSumDtype(dtype), device });
  return recordedAttention(
    tape,
    { query, key, value },
    {
      name,
      sinks,
      forward: (given) => {
        const kept = positionsOfHeads(given, features, order);
        const width = numHeads * sizes.valueSize;
        const output = Tensor.empty({ shape: [...kept.shape.slice(0, -1), width], dtype, device });
        const logSumExp = emptyStatistics();
        const results = { output: byHead(output, numHeads), logSumExp };
        const highestScores = rest.highestScores?.rows(firstHead, firstHead + numHeads);
        forward({ call: { ...call, highestScores }, heads: sideBySide(kept, features), ...results });
        addSinks(sinks, results);
        const shape = [...given.query.shape.slice(0, -3), width * size];
        const ofPositions = { whole: Tensor.empty({ shape, dtype, device }) };
        headsOfPositions(output, { whole: [width] }, { order, targets: ofPositions });
        return { output: ofPositions.whole, logSumExp, kept };
      },
      backward: ({ kept, output, logSumExp, outputGradient: ofPositions, gradient: targets }) => {
        const rowSums = emptyStatistics();
        const sums = computeRowSums(output, ofPositions, sizes.heads);
        turnRows(positionsOfHeads({ sums }, { sums: [numHeads] }, order), rowSums);
        differentiateSinks(sinks, { rowSums, logSumExp });
        const width = numHeads * sizes.valueSize;
        using outputGradient = positionsOfHeads({ whole: ofPositions }, { whole: [width] }, order);
        const gradients = Tensor.empty({ shape: kept!.shape, dtype, device });
        const heads = sideBySide(kept!, features);
        const gradient = sideBySide(gradients, features);
        const byHeads = byHead(outputGradient, numHeads);
        backward({ call, heads, logSumExp, rowSums, outputGradient: byHeads, gradient });
        headsOfPositions(gradients, features, { order, targets });
      },
    },
  );
}

/** Returns the number of query heads of a process after the exchange. */
function headsOfProcess(
  { groups, heads }: { readonly groups: number; readonly heads: number },
  { size }: ProcessGroup,
): number {
  if (groups % size === 0) return heads / size;
  throw new UsageError('MTL_CONTEXT_PARALLEL', `${groups} groups of heads for ${size} processes`, {
    expected: `a multiple of ${size}: every process has all positions of some heads`,
    remedy: 'let keys and values travel: all_gather or p2p',
  });
}

/**
 * Computes the sum of the products of an output and its gradient, for each row and head: [rows, ..., A] from
 * [rows, ..., A * E].
 */
function computeRowSums(output: Tensor, gradient: Tensor, numHeads: number): Tensor {
  const [left, right] = [byHead(output, numHeads), byHead(gradient, numHeads)];
  return rowProducts({ left, right }).reshape(left.shape.slice(0, -1));
}

/** Copies rows [chunks * c, ..., A] to statistics [chunks, ..., A, c]. */
function turnRows(rows: Tensor, statistics: Tensor): void {
  const { shape } = statistics;
  const positions = shape.at(-1)!;
  const inner = shape.slice(1, -1);
  const width = inner.reduce((size, length) => size * length, 1);
  const strides = inner.map((_, dim) => inner.slice(dim + 1).reduce((size, length) => size * length, 1));
  // an operand's last dimension must be contiguous, so a dimension of size 1 is added
  using from = rows.strided({ shape: [...shape, 1], strides: [positions * width, ...strides, width, 1] });
  using to = statistics.reshape([...shape, 1]);
  cast({ output: to, input: from });
}

/** The dimensions of a row in each of several named tensors. */
type Features<Name extends string> = Readonly<Record<Name, readonly number[]>>;

/** Makes an object that has the same keys as `names`. */
function byName<Name extends string, To>(
  names: Readonly<Record<Name, unknown>>,
  make: (name: Name) => To,
): Record<Name, To> {
  const entries = (Object.keys(names) as Name[]).map((name) => [name, make(name)]);
  return Object.fromEntries(entries) as Record<Name, To>;
}

/** Splits rows [..., W] into named parts that are side by side in each row; the parts are strided views. */
function sideBySide<Name extends string>(rows: Tensor, features: Features<Name>): Record<Name, Tensor> {
  const [outer, strides] = [rows.shape.slice(0, -1), rows.strides.slice(0, -1)];
  let offset = 0;
  return byName(features, (name) => {
    const inner = features[name];
    const ofInner = inner.map((_, dim) => countElements(inner.slice(dim + 1)));
    const part = rows.strided({ offset, shape: [...outer, ...inner], strides: [...strides, ...ofInner] });
    offset += countElements(inner);
    return part;
  });
}

/**
 * Views [rows, ..., F, ...] as [n, rows, ..., F / n, ...], so that the dimension F is divided over n = `size`
 * processes. The last parameter has an entry for F and for each dimension after it.
 */
function byProcess(tensor: Tensor, size: number, { length }: readonly number[]): Tensor {
  const { shape, strides } = tensor;
  const dim = shape.length - length;
  const share = shape[dim]! / size;
  return tensor.strided({
    shape: [size, ...shape.slice(0, dim), share, ...shape.slice(dim + 1)],
    strides: [share * strides[dim]!, ...strides],
  });
}

/**
 * Exchanges tensors [own, B, n * F, ...], which have the process's own positions and all heads, for a tensor
 * [S, B, W] (packed: [T, W]), which has all positions and the process's own heads. `features` has the
 * dimensions F, ... of the own heads. A row of length W contains all these features side by side.
 */
function positionsOfHeads<Name extends string>(
  tensors: Readonly<Record<Name, Tensor>>,
  features: Features<Name>,
  order: RowOrder,
): Tensor {
  const { group } = order;
  const names = Object.keys(features) as Name[];
  const views = byName(features, (name) => byProcess(order.enter(tensors[name]), group.size, features[name]));
  const [first] = names as [Name];
  const { shape, dtype, device } = views[first];
  const outer = shape.slice(0, shape.length - features[first].length);
  const width = names.reduce((sum, name) => sum + countElements(features[name]), 0);
  using leaving = Tensor.empty({ shape: [...outer, width], dtype, device });
  const places = sideBySide(leaving, features);
  for (const name of names) cast({ output: places[name], input: views[name] });
  using arrived = exchanged(leaving, group);
  const [size, numRows, ...rest] = arrived.shape as [number, number, ...number[]];
  using rows = arrived.reshape([size * numRows, ...rest]);
  return order.inSequenceOrder(rows);
}

/**
 * Exchanges a tensor [S, B, W] (packed: [T, W]), which has all positions and the process's own heads, for
 * tensors [own, B, n * F, ...], which have the process's own positions and all heads. The results are written
 * to `targets`.
 */
function headsOfPositions<Name extends string>(
  tensor: Tensor,
  features: Features<Name>,
  { order, targets }: { readonly order: RowOrder; readonly targets: Readonly<Record<Name, Tensor>> },
): void {
  const { size } = order.group;
  using leaving = order.inProcessOrder(tensor);
  using arrived = exchanged(leaving, order.group);
  const [numRows, ...rest] = tensor.shape as [number, ...number[]];
  using byOwner = arrived.reshape([size, numRows / size, ...rest]);
  const parts = sideBySide(byOwner, features);
  for (const name of Object.keys(features) as Name[]) {
    order.into(targets[name], (rows) =>
      cast({ output: byProcess(rows, size, features[name]), input: parts[name] }),
    );
  }
}

/** Runs an all-to-all in which the first dimension is divided into equal parts. */
function exchanged(input: Tensor, group: ProcessGroup): Tensor {
  const { shape, dtype, device } = input;
  const output = Tensor.empty({ shape, dtype, device });
  group.allToAll({ output, input }).wait();
  return output;
}

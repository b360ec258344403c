import {
  combineRows,
  groupByExpert,
  permuteProbabilities,
  permuteRows,
  type RowGrouping,
  reshape,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { cast, type Device, hasValues, Tensor } from '@mtl/kernels';
import {
  communicate,
  exchangeRows,
  finished,
  gatherRowsOfAll,
  type PendingVariable,
  type RowExchange,
  reversed,
  sumRowsOfAll,
} from './communicate.js';
import { type AssumedRouting, type ExpertParallel, placeAmongExperts } from './expert-parallel.js';

export interface DispatchTokensOptions {
  /** `[T, 1, H]`: the rows (tokens) of this process. Every process has its own rows. */
  readonly input: Variable;
  /** int32 [T, k]: the experts of each row, or -1 for a dropped assignment. */
  readonly experts: Variable;
  /** float32 [T, k] */
  readonly probabilities: Variable;
  /** E: the number of experts on all processes. */
  readonly numExperts: number;
  readonly expertParallel: ExpertParallel | undefined;
}

/**
 * Rows that are being sent to the processes that hold their experts. Computations before `arrive` overlap
 * with the exchange of rows. The backward of these computations overlaps with the exchange of gradients.
 */
export interface SentTokens {
  /**
   * int32 [E + 1]: the difference between consecutive elements is the number of this process's rows for an
   * expert.
   */
  readonly load: Variable;
  /** True if rows are sent to other processes. */
  readonly isExchange: boolean;
  /** Waits for the rows. Call it once. */
  arrive(tape: Tape): DispatchedTokens;
}

/** Rows that have arrived at the processes that hold their experts. */
export interface DispatchedTokens {
  /**
   * [R, 1, H], ordered by expert. If several processes share the experts (`sharing`), each process has the
   * rows of all these processes.
   */
  readonly rows: Variable;
  /** float32 [R] */
  readonly probabilities: Variable;
  /** int32 [number of this process's experts + 1]: the first row of each expert. */
  readonly offsets: Variable;
  /**
   * Starts to send the experts' outputs, [R, 1, H], back to the processes from which the tokens came. If the
   * experts' features are sharded (`sharing`), the outputs must be partial sums. The result is the sum for
   * each token, [T, 1, H].
   */
  combine(tape: Tape, outputs: Variable): PendingVariable;
}

/**
 * Sends each row to the processes that hold its experts, and the outputs back. The k outputs of a row are
 * summed in float32, in the order in which the row chose its experts, so the placement of experts changes
 * results only by rounding. The rows of an expert are ordered by process, then by token. With `alltoall`,
 * processes first exchange the row counts, and then only the rows that each process needs. With `allgather`,
 * all processes get all rows.
 */
export function dispatchTokens(tape: Tape, options: DispatchTokensOptions): SentTokens {
  const { expertParallel } = options;
  const isSpread = (expertParallel?.spread?.size ?? 1) > 1;
  const isShared = (expertParallel?.sharing?.size ?? 1) > 1;
  if (!isSpread && !isShared) return dispatchHere(tape, options);
  const all = groupOfAll(expertParallel!, { isSpread, isShared });
  const spread = { ...options, all };
  return expertParallel!.dispatcher === 'allgather'
    ? dispatchByGathering(tape, spread)
    : dispatchByExchange(tape, spread);
}

function groupOfAll(
  { spread, sharing, all }: ExpertParallel,
  { isSpread, isShared }: { readonly isSpread: boolean; readonly isShared: boolean },
) {
  if (isSpread && isShared) return all!;
  return isSpread ? spread! : sharing!;
}

/**
 * The options of a dispatch that communicates. `all` is the group of all processes that hold parts of the
 * experts.
 */
interface SpreadOptions extends DispatchTokensOptions {
  readonly all: NonNullable<ExpertParallel['all']>;
}

function dispatchHere(tape: Tape, options: DispatchTokensOptions): SentTokens {
  const { input, experts, probabilities, numExperts } = options;
  const grouping = groupByExpert(tape, { experts, numExperts });
  return {
    load: grouping.offsets,
    isExchange: false,
    arrive: (inner) => ({
      rows: permuteRows(inner, { input, grouping }),
      probabilities: permuteProbabilities(inner, { probabilities, grouping }),
      offsets: grouping.offsets,
      combine: (last, rows) => finished(combineRows(last, { rows, grouping, shape: input.tensor.shape })),
    }),
  };
}

function dispatchByExchange(tape: Tape, options: SpreadOptions): SentTokens {
  const { input, experts, probabilities, numExperts, expertParallel } = options;
  const { device } = input.tensor;
  const { sharing } = expertParallel!;
  const numSharing = sharing?.size ?? 1;
  const grouping = groupByExpert(tape, { experts, numExperts });
  const counts = countsOfAll(grouping.offsets.tensor, options);
  const { exchange, here, arrivals } = planExchange(counts, options);
  const own = { ...grouping, sources: firstRows(tape, grouping.sources, counts.numOwn) };
  const gathered = (inner: Tape, rows: Variable): PendingVariable =>
    numSharing === 1
      ? finished(rows)
      : handOver(padded(inner, rows, here), (part) => gatherRowsOfAll(inner, part, sharing!));
  const sent = (rows: Variable): PendingVariable => {
    if (exchange === undefined) return gathered(tape, rows);
    const pending = handOver(rows, (part) => exchangeRows(tape, part, exchange));
    return { finish: (inner) => gathered(inner, pending.finish(inner)).finish(inner) };
  };
  const rows = sent(permuteRows(tape, { input, grouping: own }));
  const weights = sent(permuteProbabilities(tape, { probabilities, grouping: own }));
  const arrived = groupByExpert(tape, {
    experts: expertIds(tape, arrivals, device),
    numExperts: numExperts / placeAmongExperts(expertParallel).size,
  });
  const byExpert = { ...arrived, sources: firstRows(tape, arrived.sources, sumCounts(arrivals)) };
  /**
   * Starts the last collective on the way back to the tokens. The earlier collectives are already complete.
   */
  const back = (inner: Tape, unsorted: Variable): PendingVariable => {
    const summed =
      numSharing === 1
        ? finished(unsorted)
        : handOver(unsorted, (part) => sumRowsOfAll(inner, part, sharing!));
    const trim = (last: Tape): Variable => trimmed(last, summed.finish(last), here);
    if (exchange === undefined) return { finish: trim };
    return handOver(trim(inner), (part) => exchangeRows(inner, part, reversed(exchange)));
  };
  return {
    load: grouping.offsets,
    isExchange: true,
    arrive: (inner) => ({
      ...orderByExpert(inner, { rows, weights, grouping: byExpert }),
      offsets: byExpert.offsets,
      combine: (last, outputs) => {
        const pending = back(last, combineRows(last, { rows: outputs, grouping: byExpert }));
        const { shape } = input.tensor;
        return {
          finish: (end) =>
            handOver(pending.finish(end), (part) => combineRows(end, { rows: part, grouping: own, shape })),
        };
      },
    }),
  };
}

/**
 * Sorts the arrived rows and their probabilities by expert. The unsorted rows are kept for the backward pass.
 */
const orderByExpert = (
  tape: Tape,
  {
    rows,
    weights,
    grouping,
  }: { readonly rows: PendingVariable; readonly weights: PendingVariable; readonly grouping: RowGrouping },
): Pick<DispatchedTokens, 'rows' | 'probabilities'> => ({
  rows: permuteRows(tape, { input: rows.finish(tape), grouping }),
  probabilities: permuteProbabilities(tape, { probabilities: weights.finish(tape), grouping }),
});

/** Returns the result of `read` and then releases `variable`, which must have no further reader. */
function handOver<Result>(variable: Variable, read: (variable: Variable) => Result): Result {
  const result = read(variable);
  variable.release();
  return result;
}

/** Dispatches tokens with `allgather`: every process gets all rows and selects the rows of its experts. */
function dispatchByGathering(tape: Tape, options: SpreadOptions): SentTokens {
  const { input, experts, probabilities, numExperts, expertParallel, all } = options;
  const { device } = input.tensor;
  const { rank, size } = placeAmongExperts(expertParallel);
  const numHere = numExperts / size;
  const { load, ids, numArrived } = idsHere(experts.tensor, {
    all,
    first: rank * numHere,
    numHere,
    numExperts,
    routing: expertParallel?.assumedRouting,
  });
  const rows = gatherRowsOfAll(tape, input, all);
  const weights = gatherRowsOfAll(tape, probabilities, all);
  const grouping = groupByExpert(tape, {
    experts: tape.input(
      Tensor.from(ids, {
        shape: [ids.length / experts.tensor.dim(1), experts.tensor.dim(1)],
        dtype: 'int32',
        device,
      }),
    ),
    numExperts: numHere,
  });
  const here = { ...grouping, sources: firstRows(tape, grouping.sources, numArrived) };
  return {
    load: tape.input(Tensor.from(load, { shape: [numExperts + 1], dtype: 'int32', device })),
    isExchange: true,
    arrive: (inner) => ({
      ...orderByExpert(inner, { rows, weights, grouping: here }),
      offsets: here.offsets,
      combine: (last, outputs) => {
        const unsorted = combineRows(last, { rows: outputs, grouping: here });
        const pending = handOver(unsorted, (part) => sumRowsOfAll(last, part, all));
        const { shape } = input.tensor;
        return { finish: (end) => reshape(end, { input: pending.finish(end), shape }) };
      },
    }),
  };
}

interface ExpertsHere {
  readonly all: SpreadOptions['all'];
  readonly first: number;
  readonly numHere: number;
  readonly numExperts: number;
  readonly routing: AssumedRouting | undefined;
}

/**
 * Returns two lists: `ids`, for all rows, the indices of their experts among this process's experts, or -1
 * for other processes' experts; and `load`, whose consecutive elements differ by the number of this process's
 * rows for each expert.
 */
function idsHere(
  experts: Tensor,
  { all, first, numHere, numExperts, routing }: ExpertsHere,
): { readonly load: Int32Array; readonly ids: Int32Array; readonly numArrived: number } {
  const numOwn = experts.size;
  const numAssumed = routing === 'first' ? experts.dim(1) : numExperts;
  const own = hasValues(experts.device)
    ? experts.read<'int32'>()
    : Int32Array.from({ length: numOwn }, (_, index) => index % numAssumed);
  using input = Tensor.from(own, { shape: [numOwn], dtype: 'int32' });
  using output = Tensor.empty({ shape: [all.size * numOwn], dtype: 'int32' });
  all.allGather({ output, input }).wait();
  const ids = output.read<'int32'>().map((expert) => {
    const here = expert - first;
    return expert >= 0 && here >= 0 && here < numHere ? here : -1;
  });
  const load = new Int32Array(numExperts + 1);
  for (const expert of own) if (expert >= 0) load[expert + 1]! += 1;
  for (let expert = 0; expert < numExperts; expert++) load[expert + 1]! += load[expert]!;
  return { load, ids, numArrived: ids.filter((expert) => expert >= 0).length };
}

/** Consecutive rows that arrive for the same expert of this process. An expert of -1 marks padding rows. */
interface Arrival {
  readonly expert: number;
  readonly count: number;
}

const sumCounts = (arrivals: readonly Arrival[]): number =>
  arrivals.reduce((sum, { expert, count }) => sum + (expert < 0 ? 0 : count), 0);

/** How many rows each process sends to each expert. */
interface Counts {
  /** Returns how many rows `process` sends to `expert`. `process` is a rank in the group `all`. */
  readonly of: (process: number, expert: number) => number;
  /** The number of rows of this process. */
  readonly numOwn: number;
}

const sumOver = (size: number, of: (index: number) => number): number =>
  Array.from({ length: size }, (_, index) => of(index)).reduce((sum, value) => sum + value, 0);

function countsOfAll(offsets: Tensor, { all, numExperts, experts, expertParallel }: SpreadOptions): Counts {
  const bounds = hasValues(offsets.device)
    ? offsets.toArray()
    : assumedBounds(experts.tensor, { numExperts, routing: expertParallel?.assumedRouting });
  const own = Array.from({ length: numExperts }, (_, expert) => bounds[expert + 1]! - bounds[expert]!);
  using input = Tensor.from(own, { shape: [numExperts], dtype: 'int32' });
  using output = Tensor.empty({ shape: [all.size, numExperts], dtype: 'int32' });
  all.allGather({ output, input }).wait();
  const gathered = output.toArray();
  return {
    of: (process, expert) => gathered[process * numExperts + expert]!,
    numOwn: bounds[numExperts]!,
  };
}

/**
 * Returns the first row of each expert under the assumptions of a dry run: either rows are distributed as
 * evenly as possible, with surplus rows for the first experts, or all rows go to the first k experts.
 */
function assumedBounds(
  { size: numSlots, shape }: Tensor,
  { numExperts, routing }: { readonly numExperts: number; readonly routing: AssumedRouting | undefined },
): readonly number[] {
  const [numRows, topK] = shape as [number, number];
  return Array.from({ length: numExperts + 1 }, (_, expert) =>
    routing === 'first' ? numRows * Math.min(expert, topK) : Math.ceil((expert * numSlots) / numExperts),
  );
}

/**
 * The number of rows that one process sends or receives, and the size to which parts are padded when they are
 * gathered among processes with the same experts.
 */
interface RowsHere {
  readonly numRows: number;
  readonly partSize: number;
}

function planExchange(
  { of }: Counts,
  { all, numExperts, expertParallel }: SpreadOptions,
): {
  readonly exchange: RowExchange | undefined;
  readonly here: RowsHere;
  readonly arrivals: readonly Arrival[];
} {
  const { spread, sharing } = expertParallel!;
  const { rank, size } = placeAmongExperts(expertParallel);
  const { rank: ownShare, size: numSharing } = sharing ?? { rank: 0, size: 1 };
  const each = numExperts / size;
  const findProcess = (place: number, share: number): number => place * numSharing + share;
  const countFor = (place: number, share: number, expert: number): number =>
    of(findProcess(place, share), rank * each + expert);
  const arriving = (share: number): number =>
    sumOver(size, (place) => sumOver(each, (expert) => countFor(place, share, expert)));
  const partSize = Math.max(...Array.from({ length: numSharing }, (_, share) => arriving(share)));
  const arrivals = Array.from({ length: numSharing }, (_, share) => [
    ...Array.from({ length: size }, (__, place) =>
      Array.from({ length: each }, (___, expert) => ({ expert, count: countFor(place, share, expert) })),
    ).flat(),
    ...(numSharing === 1 ? [] : [{ expert: -1, count: partSize - arriving(share) }]),
  ]).flat();
  const exchange = spread !== undefined &&
    size > 1 && {
      group: spread,
      inputSplits: Array.from({ length: size }, (_, place) =>
        sumOver(each, (expert) => of(all.rank, place * each + expert)),
      ),
      outputSplits: Array.from({ length: size }, (_, place) =>
        sumOver(each, (expert) => countFor(place, ownShare, expert)),
      ),
    };
  return { exchange: exchange || undefined, here: { numRows: arriving(ownShare), partSize }, arrivals };
}

/** Returns the expert of each arriving row, int32 [N, 1]. */
function expertIds(tape: Tape, arrivals: readonly Arrival[], device: Device): Variable {
  const numRows = arrivals.reduce((sum, { count }) => sum + count, 0);
  const ids = new Int32Array(numRows);
  let start = 0;
  for (const { expert, count } of arrivals) {
    ids.fill(expert, start, start + count);
    start += count;
  }
  return tape.input(Tensor.from(ids, { shape: [numRows, 1], dtype: 'int32', device }));
}

/** Returns the first elements of a vector. */
function firstRows(tape: Tape, { tensor }: Variable, length: number): Variable {
  return tape.input(tensor.view({ shape: [length] }));
}

/** Pads rows to the length of the longest part. The padding is never read. */
const padded = (tape: Tape, input: Variable, { numRows, partSize }: RowsHere): Variable =>
  resized(tape, input, { from: numRows, to: partSize });

const trimmed = (tape: Tape, input: Variable, { numRows, partSize }: RowsHere): Variable =>
  resized(tape, input, { from: partSize, to: numRows });

function resized(
  tape: Tape,
  input: Variable,
  { from, to }: { readonly from: number; readonly to: number },
): Variable {
  if (from === to) return input;
  return communicate(tape, {
    name: 'resizedRows',
    input,
    forward: (tensor) => withRows(tensor, to),
    backward: (gradient) => withRows(gradient, from),
  });
}

/**
 * Returns the first `numRows` rows of a tensor. If the tensor has fewer rows, appends rows with arbitrary
 * values.
 */
function withRows(tensor: Tensor, numRows: number) {
  const { dtype, device, shape } = tensor;
  const [before, ...row] = shape as [number, ...number[]];
  const wanted = [numRows, ...row];
  if (numRows < before) {
    const view = tensor.view({ shape: wanted });
    return { wait: () => view };
  }
  const output = Tensor.empty({ shape: wanted, dtype, device });
  using part = output.view({ shape });
  cast({ output: part, input: tensor });
  return { wait: () => output };
}

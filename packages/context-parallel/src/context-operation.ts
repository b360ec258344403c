import type { AttentionCall, Heads } from '@mtl/autograd';
import { SinksOfCall, type Tape, Variable } from '@mtl/autograd';
import { attentionRowSums, type DType, Tensor, tidy } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import type { AttendedCall } from './context-attention.js';
import { type HeadSizes, headsInto, mapHeads, measureSizes, rowsOfPlace } from './heads-of-rows.js';

/**
 * The tensors of one forward or backward pass. They contain the rows of this process's own chunks, one chunk
 * after the other: [own, B, ...], or [own, ...] for packed samples.
 */
export interface Pass {
  readonly call: AttendedCall;
  readonly chunks: Chunks;
  readonly sizes: HeadSizes;
  readonly heads: Heads<Tensor>;
  /**
   * [chunks, ...]: the log-sum-exp of the rows in each of this process's own chunks, over all keys to which
   * the chunk's queries attend (see `Chunks.statisticsShape`).
   */
  readonly logSumExp: Tensor;
}

export interface ForwardPass extends Pass {
  /** [rows, ..., A, E] */
  readonly output: Tensor;
}

export interface BackwardPass extends Pass {
  /** The `attentionRowSums` of each of this process's own chunks, in the shape of `logSumExp`. */
  readonly rowSums: Tensor;
  /** The gradients of the heads. */
  readonly gradient: Heads<Tensor>;
  /** [rows, ..., A, E] */
  readonly outputGradient: Tensor;
}

/**
 * A method to compute attention of this process's queries when other processes hold a part of the keys and
 * values.
 */
export interface ContextOperation {
  readonly name: string;
  /** Writes the output and the log-sum-exp. */
  forward(pass: ForwardPass): void;
  /** Writes the gradients of the heads. */
  backward(pass: BackwardPass): void;
}

/**
 * Returns the dtype in which partial results are summed. Sums in 16 bits would accumulate rounding errors
 * over processes.
 */
export const chooseSumDtype = (dtype: DType): DType => (dtype === 'float64' ? 'float64' : 'float32');

/**
 * The forward and backward passes of attention over the rows of a process. Heads have the shape [own, B,
 * ...].
 */
interface AttentionPasses {
  readonly name: string;
  /** Computes the output. If `kept` is returned, backward reads this tensor instead of the heads. */
  forward(heads: Heads<Tensor>): {
    /** [own, B, A * E] */
    readonly output: Tensor;
    readonly logSumExp: Tensor;
    readonly kept?: Tensor;
  };
  /** Writes the gradients of the heads. */
  backward(pass: {
    readonly heads: Heads<Tensor> | undefined;
    readonly kept: Tensor | undefined;
    readonly output: Tensor;
    readonly logSumExp: Tensor;
    readonly outputGradient: Tensor;
    readonly gradient: Heads<Tensor>;
  }): void;
  /** The sinks, whose gradient `backward` computes. */
  readonly sinks?: SinksOfCall | undefined;
}

/**
 * Records attention as a differentiable operation. For backward, it keeps the heads, the output and the
 * log-sum-exp of the rows. The mask tensors must outlive the micro-batch's forward and backward passes.
 */
export function recordedAttention(
  tape: Tape,
  heads: Heads<Variable>,
  { name, forward, backward, sinks }: AttentionPasses,
): Variable {
  const inputs = [heads.query, heads.key, heads.value];
  const results = tidy(() => forward(mapHeads(heads, ({ tensor }) => tensor)));
  const parameters = sinks?.parameters ?? [];
  const output = tape.result(results.output, {
    requiresGradient: parameters.length > 0 || inputs.some(({ requiresGradient }) => requiresGradient),
  });
  const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const logSumExp = constant(results.logSumExp);
  const kept = results.kept && constant(results.kept);
  tape.record(output, () => {
    const savedHeads = kept === undefined ? mapHeads(heads, (each) => tape.save(each)) : undefined;
    const saved = {
      kept: kept && tape.save(kept),
      output: tape.save(output),
      logSumExp: tape.save(logSumExp),
    };
    return {
      name,
      inputs,
      parameters,
      saved: [...Object.values(savedHeads ?? {}), ...Object.values(saved), sinks].filter(
        (one) => one !== undefined,
      ),
      backward: ({ parts, outputGradient }) => {
        if (!parts.input) {
          sinks?.addGradient();
          return [];
        }
        const gradient = mapHeads(heads, (each) => each.newGradient());
        sinks?.startGradient();
        // these reads are outside of a tidy scope, because recomputed tensors belong to their variables and
        // must not be disposed of here
        const tensors = {
          heads: savedHeads && mapHeads(savedHeads, ({ tensor }) => tensor),
          kept: saved.kept?.tensor,
          output: saved.output.tensor,
          logSumExp: saved.logSumExp.tensor,
          outputGradient: outputGradient!,
        };
        tidy(() => backward({ ...tensors, gradient }));
        if (parts.weight) sinks?.addGradient();
        return [gradient.query, gradient.key, gradient.value];
      },
    };
  });
  logSumExp.release();
  kept?.release();
  return output;
}

/**
 * The results for all of this process's own chunks. `output` is [rows, ..., A, E], and `logSumExp` is
 * [chunks, ...].
 */
interface ResultsOfChunks {
  readonly output: Tensor;
  readonly logSumExp: Tensor;
}

/** Adds attention sinks to the results for this process's own chunks, which cover all keys. */
export function addSinks(sinks: SinksOfCall | undefined, { output, logSumExp }: ResultsOfChunks): void {
  if (sinks === undefined) return;
  const perProcess = logSumExp.dim(0);
  for (let place = 0; place < perProcess; place++) {
    sinks.addTo({
      output: rowsOfPlace(output, place, { perProcess }),
      logSumExp: statisticsOfPlace(logSumExp, place),
    });
  }
}

/** Computes the gradient of the sinks from the statistics [chunks, ...] of this process's own chunks. */
export function differentiateSinks(
  sinks: SinksOfCall | undefined,
  { rowSums, logSumExp }: { readonly rowSums: Tensor; readonly logSumExp: Tensor },
): void {
  for (let place = 0; sinks !== undefined && place < logSumExp.dim(0); place++) {
    sinks.differentiate({
      rowSums: statisticsOfPlace(rowSums, place),
      logSumExp: statisticsOfPlace(logSumExp, place),
    });
  }
}

/** Views activations [own, B, A * E] as [own, B, A, E]. */
export const byHead = (tensor: Tensor, heads: number): Tensor =>
  tensor.reshape([...tensor.shape.slice(0, -1), heads, tensor.dim(-1) / heads]);

/** Records attention of the queries in this process's own chunks. */
export function contextOperation(
  tape: Tape,
  { call, chunks }: { readonly call: AttentionCall; readonly chunks: Chunks },
  { name, forward, backward }: ContextOperation,
): Variable {
  const { dtype, device } = call.query.tensor;
  const { heads: numHeads, valueSize } = measureSizes(mapHeads(call, ({ tensor }) => tensor));
  const statisticsShape = [chunks.perProcess, ...chunks.statisticsShape(numHeads)];
  const statistics = { shape: statisticsShape, dtype: chooseSumDtype(dtype), device };
  const sinks = call.sinks && new SinksOfCall(call.sinks);
  return recordedAttention(tape, call, {
    name,
    sinks,
    forward: (given) => {
      const outer = given.query.shape.slice(0, -3);
      const output = Tensor.empty({ shape: [...outer, numHeads * valueSize], dtype, device });
      const logSumExp = Tensor.empty(statistics);
      const heads = mapHeads(given, (each) => chunks.enter(each));
      const sizes = measureSizes(heads);
      chunks.into(byHead(output, numHeads), (rows) => {
        forward({ call, chunks, sizes, heads, output: rows, logSumExp });
        addSinks(sinks, { output: rows, logSumExp });
      });
      return { output, logSumExp };
    },
    backward: (pass) => {
      const heads = mapHeads(pass.heads!, (each) => chunks.enter(each));
      const sizes = measureSizes(heads);
      const outputGradient = chunks.enter(byHead(pass.outputGradient, numHeads));
      const output = chunks.enter(byHead(pass.output, numHeads));
      const rowSums = Tensor.empty(statistics);
      for (let place = 0; place < chunks.perProcess; place++) {
        attentionRowSums({
          rowSums: statisticsOfPlace(rowSums, place),
          output: rowsOfPlace(output, place, chunks),
          outputGradient: rowsOfPlace(outputGradient, place, chunks),
        });
      }
      const { logSumExp } = pass;
      differentiateSinks(sinks, { rowSums, logSumExp });
      headsInto(chunks, pass.gradient, (gradient) =>
        backward({ call, chunks, sizes, heads, logSumExp, rowSums, gradient, outputGradient }),
      );
    },
  });
}

/** Returns the statistics of one of this process's own chunks (see `Chunks.statisticsShape`). */
const statisticsOfPlace = (statistics: Tensor, place: number): Tensor =>
  statistics.rows(place, place + 1).reshape(statistics.shape.slice(1));

/** Views of the operands of forward: the rows that belong to one of this process's chunks of queries. */
interface OwnResults {
  /** [c, ..., G, R, D] */
  readonly query: Tensor;
  /** [c, ..., A, E] */
  readonly output: Tensor;
  /** See `Chunks.statisticsShape`. */
  readonly logSumExp: Tensor;
}

export function ownResults({ heads, output, logSumExp, chunks }: ForwardPass, place: number): OwnResults {
  return {
    query: rowsOfPlace(heads.query, place, chunks),
    output: rowsOfPlace(output, place, chunks),
    logSumExp: statisticsOfPlace(logSumExp, place),
  };
}

/** Views of the operands of backward: the rows that belong to one of this process's chunks of queries. */
interface OwnGradients {
  /** [c, ..., G, R, D] */
  readonly query: Tensor;
  readonly queryGradient: Tensor;
  /** [c, ..., A, E] */
  readonly outputGradient: Tensor;
  /** See `Chunks.statisticsShape`. */
  readonly logSumExp: Tensor;
  readonly rowSums: Tensor;
}

export function ownGradients(pass: BackwardPass, place: number): OwnGradients {
  const { heads, gradient, outputGradient, chunks, logSumExp, rowSums } = pass;
  return {
    query: rowsOfPlace(heads.query, place, chunks),
    queryGradient: rowsOfPlace(gradient.query, place, chunks),
    outputGradient: rowsOfPlace(outputGradient, place, chunks),
    logSumExp: statisticsOfPlace(logSumExp, place),
    rowSums: statisticsOfPlace(rowSums, place),
  };
}

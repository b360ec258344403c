import { type Tape, Variable } from '@mtl/autograd';
import { type DType, Tensor, tidy } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import type { ContextAttentionCall } from './context-attention.js';
import { type ProjectionSizes, sizesOf } from './projection-parts.js';

/** The results of forward, which backward reads. */
export interface ContextResults {
  /** [rows, ..., A * D] */
  readonly output: Tensor;
  /** [chunks, ...]: of each own chunk, over all keys that its queries see; see `Chunks.statisticsShape`. */
  readonly logSumExp: Tensor;
}

/** Rows are those of the own chunks, one after the other: dimensions before W are [own, B], or [own]. */
export interface ForwardPass extends ContextResults {
  readonly call: ContextAttentionCall;
  readonly chunks: Chunks;
  readonly sizes: ProjectionSizes;
  /** [rows, ..., (A + 2 G) * D] */
  readonly projection: Tensor;
}

export interface BackwardPass extends ForwardPass {
  /** [rows, ..., (A + 2 G) * D] */
  readonly gradient: Tensor;
  /** [rows, ..., A * D] */
  readonly outputGradient: Tensor;
}

/** A way to compute attention of the own queries where keys and values are with other processes. */
export interface ContextOperation {
  readonly name: string;
  /** Writes the results. */
  forward(pass: ForwardPass): void;
  /** Writes the gradient of the projection. */
  backward(pass: BackwardPass): void;
}

/** The dtype of sums of partial results: rounding these to 16 bits would add up over processes. */
export const sumsOf = (dtype: DType): DType => (dtype === 'float64' ? 'float64' : 'float32');

/**
 * Attention as a differentiable operation that keeps what `attention` of @mtl/autograd keeps: the projection,
 * the output and the log-sum-exp of its rows, of the own positions alone. What masks read belongs to
 * `chunks`, which outlive the passes of a micro-batch.
 */
export function contextOperation(
  tape: Tape,
  { call, chunks }: { readonly call: ContextAttentionCall; readonly chunks: Chunks },
  { name, forward, backward }: ContextOperation,
): Variable {
  const { qkv } = call;
  const { dtype, device } = qkv.tensor;
  const sizes = sizesOf(call, chunks);
  const { heads, headSize, rows } = sizes;
  const empty = (shape: readonly number[]): Tensor => Tensor.empty({ shape, dtype, device });
  const logSumExp = new Variable(
    Tensor.empty({
      shape: [chunks.perProcess, ...chunks.statisticsShape(heads)],
      dtype: sumsOf(dtype),
      device,
    }),
    { requiresGradient: false },
  );
  const attended = tidy(() => {
    const result = empty([...rows, heads * headSize]);
    const projection = chunks.enter(qkv.tensor);
    forward({ call, chunks, sizes, projection, output: result, logSumExp: logSumExp.tensor });
    return chunks.leave(result);
  });
  const output = tape.result(attended, { requiresGradient: qkv.requiresGradient });
  tape.record(output, () => {
    const saved = { qkv: tape.save(qkv), output: tape.save(output), logSumExp: tape.save(logSumExp) };
    return {
      name,
      inputs: [qkv],
      parameters: [],
      saved: Object.values(saved),
      backward: ({ outputGradient }) => {
        // outside of tidy: what is recomputed here belongs to its variable
        const kept = { projection: saved.qkv.tensor, output: saved.output.tensor };
        const statistics = saved.logSumExp.tensor;
        const gradient = tidy(() => {
          const projection = chunks.enter(kept.projection);
          const result = empty(projection.shape);
          backward({
            call,
            chunks,
            sizes,
            projection,
            output: chunks.enter(kept.output),
            logSumExp: statistics,
            gradient: result,
            outputGradient: chunks.enter(outputGradient!),
          });
          return chunks.leave(result);
        });
        return [gradient];
      },
    };
  });
  logSumExp.release();
  return output;
}
